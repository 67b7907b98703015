#include "masks/grf/grf_testing.h"
#include "ops/hop_pairs/op.h"
#include "topomask/walks.h"

// Values of Φ̂Φ̂ᵀ from lists of hop pairs, against the dense product in double.

namespace topomask {
namespace {

using testing::close;
using testing::dense_features;
using testing::digraph;
using testing::gradients;
using testing::normal;

Graph street(at::ScalarType dtype) {
  return Graph::grid({9, 7}).normalised().to(at::TensorOptions(dtype));
}

std::vector<at::Tensor> tensors_of(const WalkTable& walks) {
  return {walks.pattern()->offsets(), walks.pattern()->columns(), walks.feature_offsets(), walks.hops(), walks.loads()};
}

TEST(HopPairs, GiveTheValuesAndGradientsOfTheProduct) {
  for (const Graph& graph : {street(at::kDouble), digraph()}) {
    const WalkTable left = sample_walks(graph, {.walkers = 3, .max_hops = 5, .seed = 1}),
                    right = sample_walks(graph, {.walkers = 4, .max_hops = 5, .seed = 2});
    const PatternPtr product = left.pattern()->product(right.pattern());
    for (const auto& [heads, terms] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 6}, {1, 1}, {2, 3}, {4, 6}, {7, 5}}) {
      const at::Tensor f = normal({heads, terms}, heads).requires_grad_();
      const auto [offsets, pairs, sums] = ops::hop_pairs::make(
          tensors_of(left), tensors_of(right), {product->offsets(), product->columns()}, terms, int64_t{1} << 40);
      const at::Tensor g = ops::hop_pairs::pair_products(f, 1.0 / 12);
      const SparseMatrix made{product, ops::hop_pairs::values(g, offsets, pairs, sums)};
      const at::Tensor want = at::matmul(dense_features(left, f), dense_features(right, f).mT());
      const at::Tensor slope = normal(want.sizes(), 3);
      EXPECT_TRUE(close(made.dense().reshape(want.sizes()), want, 1e-12));
      EXPECT_TRUE(
          close(gradients(made.dense().reshape(want.sizes()), slope, {f})[0], gradients(want, slope, {f})[0], 1e-11));
    }
  }
}

TEST(HopPairs, AreNotMadeWhereTheyWouldBeTooLong) {
  const WalkTable walks = sample_walks(street(at::kDouble), {.walkers = 3, .max_hops = 5, .seed = 1});
  const PatternPtr product = walks.pattern()->product(walks.pattern());
  const std::vector<at::Tensor> table = tensors_of(walks), pattern{product->offsets(), product->columns()};
  const auto [offsets, pairs, sums] = ops::hop_pairs::make(table, table, pattern, 6, int64_t{1} << 40);
  EXPECT_EQ(offsets[-1].item<int32_t>(), pairs.size(0));
  const auto same = ops::hop_pairs::make(table, table, pattern, 6, pairs.size(0));
  EXPECT_TRUE(std::get<2>(same).equal(sums));
  const auto none = ops::hop_pairs::make(table, table, pattern, 6, pairs.size(0) - 1);
  EXPECT_EQ(std::get<0>(none).numel(), 0);
  EXPECT_TRUE(ops::hop_pairs::supports(1) && ops::hop_pairs::supports(22));
  EXPECT_FALSE(ops::hop_pairs::supports(0) || ops::hop_pairs::supports(23));
  EXPECT_THROW(ops::hop_pairs::make(table, table, pattern, 23, 1), c10::Error);
  EXPECT_THROW(ops::hop_pairs::make({table[0]}, table, pattern, 6, 1), c10::Error);
}

}  // namespace
}  // namespace topomask
