#include <ATen/ATen.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "io/npy.h"
#include "masks/forest/trees.h"
#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"

namespace topomask::testing {
namespace {

const std::filesystem::path kTrees = std::filesystem::path(TOPOMASK_DATA_DIR) / "trees";

/// The parents of the WordNet nouns; undefined where they are not installed.
at::Tensor wordnet_parent() {
  const std::string path = kTrees / "wordnet_noun_tree.npz";
  if (!std::filesystem::exists(path)) return {};
  io::InputFile file(io::Origin{"wordnet", path});
  const auto members = io::read_zip_directory(file);
  io::NpyReader array(file, members.at("parent.npy"), "parent");
  at::Tensor parent = at::empty({array.size()}, at::kLong);
  array.for_each_integer([&](int64_t i, int64_t value) { parent.mutable_data_ptr<int64_t>()[i] = value; });
  return parent;
}

/// M·x against f(dist) of a few rows.
template <class Function>
void expect_sampled_rows(const Forest& forest, const MaskPtr& mask, const Function& f) {
  const int64_t nodes = forest.num_nodes();
  const at::Tensor x = normal({nodes, 3}, 60), y = mask->matmul(x);
  for (const int64_t row : {int64_t{0}, nodes / 3, nodes / 2, nodes - 1}) {
    const at::Tensor distance = forest.distances(row);
    const at::Tensor values = at::where(distance.isfinite(), f(at::where(distance.isfinite(), distance, 0)), 0.0);
    EXPECT_TRUE(close(y[row], at::matmul(values, x), 1e-10, at::matmul(values.abs(), x.abs()).max().item<double>()))
        << mask->name() << ", row " << row;
  }
}

TEST(WordNetNouns, EveryMaskMatchesSampledRows) {
  const at::Tensor parent = wordnet_parent();
  if (!parent.defined()) GTEST_SKIP() << "no WordNet noun tree under " << kTrees;
  const Forest forest = Forest(parent).to(at::kDouble);
  EXPECT_EQ(forest.num_nodes(), 82'115);
  expect_sampled_rows(forest, tree_mask(forest, DistanceFunction::exponential(-0.5)),
                      [](const at::Tensor& d) { return at::exp(-0.5 * d); });
  expect_sampled_rows(forest, tree_mask(forest, DistanceFunction::on_integers([](double d) { return 1 / (1 + d); })),
                      [](const at::Tensor& d) { return 1 / (1 + d); });
  const Forest stretched = forest.with_weights(real_weights(forest.num_nodes(), 61));
  const auto wave = DistanceFunction::product(DistanceFunction::cosine(0.3), DistanceFunction::exponential(-0.2));
  expect_sampled_rows(stretched, tree_mask(stretched, wave),
                      [](const at::Tensor& d) { return at::cos(0.3 * d) * at::exp(-0.2 * d); });
  const auto smooth = DistanceFunction::smooth([](double d) { return 1 / (1 + d); }, 1e-12);
  expect_sampled_rows(stretched, tree_mask(stretched, smooth), [](const at::Tensor& d) { return 1 / (1 + d); });
}

/// The dependency trees of sentences, CoNLL-U: column 7 is the head of a word, 0 at the root.
std::vector<at::Tensor> sentences(const std::string& name, size_t most) {
  const std::filesystem::path packed = kTrees / (name + ".conllu.xz");
  if (!std::filesystem::exists(packed)) return {};
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen(("xz -dc '" + packed.string() + "' 2> /dev/null").c_str(), "r"), pclose);
  std::vector<at::Tensor> trees;
  std::vector<int64_t> heads;
  for (char line[1 << 16]; pipe && trees.size() < most && std::fgets(line, sizeof line, pipe.get());) {
    if (line[0] == '#') continue;
    std::istringstream columns(line);
    std::string id, head;
    std::getline(columns, id, '\t');
    if (id.find_first_of(".-") != std::string::npos) continue;  // an empty node, or words written as one
    for (int column = 1; column < 7; ++column) std::getline(columns, head, '\t');
    if (columns) {
      heads.push_back(std::stoll(head) - 1);
    } else if (!heads.empty()) {  // an empty line ends the sentence
      trees.push_back(at::tensor(heads, at::kLong));
      heads.clear();
    }
  }
  return trees;
}

TEST(DependencyTrees, AreMaskedAsOneForest) {
  const std::vector<at::Tensor> trees = sentences("en_ewt-ud-dev", 300);
  if (trees.empty()) GTEST_SKIP() << "no dependency trees under " << kTrees << ", or no xz";
  EXPECT_EQ(trees.size(), 300u);
  // A few sentences against everything a mask promises.
  const at::Tensor few = joined({trees[0], trees[7], trees[20]});
  const AllPairs pairs = all_pairs(few, at::ones({few.size(0)}, at::kDouble));
  const at::Tensor a = at::scalar_tensor(-0.3, at::kDouble).requires_grad_();
  expect_mask_is(tree_mask(Forest(few).to(at::kDouble), DistanceFunction::exponential(a)),
                 pairs.same_tree * at::exp(a * pairs.distance));

  // All of them: no leak from one sentence to another, whatever the route.
  const at::Tensor parent = joined(trees);
  const Forest forest(parent);
  EXPECT_EQ(forest.num_trees(), 300);
  const int64_t nodes = forest.num_nodes(), words = trees[0].size(0);
  const at::Tensor f = at::exp(-0.2 * at::arange(64, at::kDouble));
  for (const MaskPtr& mask : {tree_mask(forest, DistanceFunction::table(f)),
                              tree_mask(forest.to(at::kDouble), DistanceFunction::exponential(-0.2))}) {
    expect_sampled_rows(forest, mask, [](const at::Tensor& d) { return at::exp(-0.2 * d); });
    const at::Tensor q = normal({nodes, 8}, 62), k = normal({nodes, 8}, 63), v = normal({nodes, 5}, 64);
    at::Tensor other = v.clone();
    other.slice(0, words).add_(100);
    for (const Route route : {Route::sparse, Route::operator_}) {
      const AttentionOptions options{.features = FeatureMap::elu(), .route = route};
      EXPECT_TRUE(close(attention(q, k, other, mask, options).slice(0, 0, words),
                        attention(q, k, v, mask, options).slice(0, 0, words), 1e-10));
    }
  }
}

}  // namespace
}  // namespace topomask::testing
