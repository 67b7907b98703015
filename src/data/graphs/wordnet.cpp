#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "data/graphs/ancestors.h"
#include "data/graphs/features.h"
#include "data/graphs/npz_arrays.h"
#include "data/graphs/splits.h"

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

/// 1, the depth as a fraction of the largest, and log(1 + children).
at::Tensor wordnet_features(const std::vector<int64_t>& parents, const std::vector<int64_t>& depths) {
  constexpr int64_t columns = 3;
  const auto nodes = static_cast<int64_t>(parents.size());
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
  const at::Tensor parent_tensor = int64_tensor(parents), label_tensor = int64_tensor(labels);
  GivenSplit drawn = split_with_given(label_tensor, options);
  GraphSet set{.name = std::filesystem::path(options.path).stem().string(),
               .graph = Graph::forest(parent_tensor),
               .offsets = int64_tensor({0, nodes}),
               .labels = label_tensor,
               .node_labels = true,
               .parents = parent_tensor,
               .classes = std::move(classes)};
  if (options.features == "given") {
    const auto files = static_cast<int64_t>(set.classes.size());
    set.features =
        at::cat({wordnet_features(parents, *depths), given_label_features(set.labels, files, drawn.given)}, 1);
  }
  return {std::move(set), std::move(drawn.split)};
}

}  // namespace topomask
