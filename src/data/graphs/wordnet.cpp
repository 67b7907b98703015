#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "data/graphs/ancestors.h"
#include "data/graphs/features.h"
#include "data/graphs/npz_arrays.h"
#include "data/random_order.h"

namespace topomask {
namespace {

/// WordNet's lexicographer files, by number (lexnames(5WN)).
constexpr std::array<const char*, 45> kLexicographerFiles{
    "adj.all",          "adj.pert",           "adv.all",
    "noun.Tops",        "noun.act",           "noun.animal",
    "noun.artifact",    "noun.attribute",     "noun.body",
    "noun.cognition",   "noun.communication", "noun.event",
    "noun.feeling",     "noun.food",          "noun.group",
    "noun.location",    "noun.motive",        "noun.object",
    "noun.person",      "noun.phenomenon",    "noun.plant",
    "noun.possession",  "noun.process",       "noun.quantity",
    "noun.relation",    "noun.shape",         "noun.state",
    "noun.substance",   "noun.time",          "verb.body",
    "verb.change",      "verb.cognition",     "verb.communication",
    "verb.competition", "verb.consumption",   "verb.contact",
    "verb.creation",    "verb.emotion",       "verb.motion",
    "verb.perception",  "verb.possession",    "verb.social",
    "verb.stative",     "verb.weather",       "adj.ppl"};

/// Labels in place of file numbers: 0, 1, … for those that occur.
std::vector<std::string> renumber_files(std::vector<int64_t>& files) {
  std::array<int64_t, kLexicographerFiles.size()> label{};
  for (const int64_t file : files) label[static_cast<size_t>(file)] = 1;
  std::vector<std::string> classes;
  for (size_t file = 0; file < label.size(); ++file) {
    if (label[file] == 0) continue;
    label[file] = static_cast<int64_t>(classes.size());
    classes.emplace_back(kLexicographerFiles[file]);
  }
  for (int64_t& file : files) file = label[static_cast<size_t>(file)];
  return classes;
}

struct WordnetSplit {
  std::vector<int64_t> given;  ///< nodes whose label is an input
  GraphSplit split;
};

WordnetSplit split_nodes(int64_t nodes, const GraphDataOptions& options) {
  const std::vector<int64_t> order = random_order(nodes, options.split_seed, /*stream=*/1, DrawFor::split);
  const auto count = [&](double fraction) { return std::llround(fraction * static_cast<double>(nodes)); };
  auto at = order.begin();
  const auto next = [&](int64_t wanted) {
    const auto first = at;
    at += std::min<int64_t>(wanted, order.end() - at);
    std::vector<int64_t> part(first, at);
    std::sort(part.begin(), part.end());
    return part;
  };
  WordnetSplit result{.given = next(count(options.given_labels))};
  result.split.validation = next(count(options.validation_fraction));
  result.split.test = next(count(options.test_fraction));
  result.split.train = next(nodes);
  result.split.by_node = true;
  return result;
}

/// 1, the depth as a fraction of the largest, log(1 + children), and the unit vector of the label at the given nodes.
at::Tensor wordnet_features(const std::vector<int64_t>& parents, const std::vector<int64_t>& depths,
                            const std::vector<int64_t>& labels, int64_t classes, const std::vector<int64_t>& given) {
  constexpr int64_t kStructure = 3;
  const auto nodes = static_cast<int64_t>(parents.size());
  const int64_t columns = kStructure + classes;
  at::Tensor features = at::zeros({nodes, columns});
  float* out = features.mutable_data_ptr<float>();
  const int64_t deepest = depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
  std::vector<int64_t> children(parents.size());
  for (const int64_t parent : parents) {
    if (parent >= 0) ++children[static_cast<size_t>(parent)];
  }
  for (size_t i = 0; i < parents.size(); ++i) {
    float* row = out + static_cast<int64_t>(i) * columns;
    row[0] = 1;
    row[1] = static_cast<float>(depths[i]) / static_cast<float>(std::max<int64_t>(deepest, 1));
    row[2] = std::log1p(static_cast<float>(children[i]));
  }
  for (const int64_t i : given) out[i * columns + kStructure + labels[static_cast<size_t>(i)]] = 1;
  return features;
}

}  // namespace

LoadedGraphs open_wordnet(const GraphDataOptions& options) {
  NpzArrays arrays(options.path);
  std::vector<int64_t> labels = arrays.integers("lexfile", 0, static_cast<int64_t>(kLexicographerFiles.size()));
  const auto nodes = static_cast<int64_t>(labels.size());
  if (nodes > std::numeric_limits<int32_t>::max()) {
    arrays.refuse("lexfile", "must have fewer than 2^31 nodes, got ", nodes);
  }
  const std::vector<int64_t> parents = arrays.integers("parent", -1, nodes);
  if (parents.size() != labels.size()) {
    arrays.refuse("parent", "must be as long as lexfile, ", labels.size(), ", got ", parents.size());
  }
  int64_t on_cycle = -1;
  const auto depths = depths_of(parents, on_cycle);
  if (!depths) arrays.refuse("parent", "node ", on_cycle, " must not be its own ancestor");
  std::vector<std::string> classes = renumber_files(labels);
  WordnetSplit drawn = split_nodes(nodes, options);
  const at::Tensor parent_tensor = int64_tensor(parents);
  GraphSet set{.name = std::filesystem::path(options.path).stem().string(),
               .graph = Graph::forest(parent_tensor),
               .offsets = int64_tensor({0, nodes}),
               .labels = int64_tensor(labels),
               .node_labels = true,
               .parents = parent_tensor,
               .classes = std::move(classes)};
  if (options.features == "given") {
    set.features = wordnet_features(parents, *depths, labels, static_cast<int64_t>(set.classes.size()), drawn.given);
  }
  return {std::move(set), std::move(drawn.split)};
}

}  // namespace topomask
