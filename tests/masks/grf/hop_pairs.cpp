#include "masks/grf/grf_testing.h"
#include "masks/grf/learned_product.h"
#include "ops/hop_pairs/op.h"
#include "topomask/grf.h"

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
  EXPECT_THROW(ops::hop_pairs::make(table, table, pattern, 23, 1), c10::Error);
  EXPECT_THROW(ops::hop_pairs::make({table[0]}, table, pattern, 6, 1), c10::Error);
}

/// A model makes a mask over the same walks in every step: the lists are those of the walks.
TEST(HopPairs, ServeMasksWhoseFunctionIsLearned) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const WalkTable walks = sample_walks(street(dtype), {.walkers = 2, .max_hops = 6, .seed = 1});
    const double tolerance = dtype == at::kDouble ? 1e-11 : 1e-4;
    for (const at::Tensor& start : {normal({4}, 1), normal({3, 5}, 2)}) {
      const at::Tensor f = start.to(dtype).requires_grad_();
      const auto lists = LearnedProduct::of(walks, f.size(-1));
      for (int step = 0; step < 5; ++step) {
        const auto matrix = grf_mask(walks, f)->sparse();
        EXPECT_TRUE(lists->has_lists());
        const at::Tensor exact = f.detach().to(at::kDouble).requires_grad_(), phi = dense_features(walks, exact);
        const at::Tensor want = at::matmul(phi, phi.mT()), slope = normal(want.sizes(), step);
        EXPECT_TRUE(close(matrix->dense().to(at::kDouble), want, tolerance));
        EXPECT_TRUE(close(gradients(matrix->dense(), slope.to(dtype), {f})[0].to(at::kDouble),
                          gradients(want, slope, {exact})[0], tolerance));
        const at::NoGradGuard no_grad;
        f.add_(0.1);
      }
      EXPECT_EQ(LearnedProduct::of(walks, f.size(-1)), lists);
    }
  }
}

/// As a module does that loads the state of another.
TEST(HopPairs, FollowLoadsThatChangeInPlace) {
  const WalkTable walks = sample_walks(street(at::kDouble), {.walkers = 2, .max_hops = 6, .seed = 1});
  const at::Tensor f = normal({4}, 1).requires_grad_();
  const at::Tensor before = grf_mask(walks, f)->sparse()->dense().detach();
  const auto lists = LearnedProduct::of(walks, 4);
  walks.loads().mul_(2);
  EXPECT_TRUE(close(grf_mask(walks, f)->sparse()->dense(), before * 4, 1e-12));
  EXPECT_NE(LearnedProduct::of(walks, 4), lists);
  EXPECT_EQ(lists.use_count(), 1);
}

TEST(HopPairs, LeaveLongWalksAndLearnedLoadsToTheProduct) {
  const WalkTable many = sample_walks(street(at::kDouble), {.walkers = 40, .halting_probability = 0.1, .max_hops = 8});
  const at::Tensor f = normal({9}, 1).requires_grad_();
  for (int step = 0; step < 4; ++step) grf_mask(many, f)->sparse();
  EXPECT_FALSE(LearnedProduct::of(many, 9)->has_lists());
  const Graph graph = street(at::kDouble);
  const WalkTable learned = sample_walks(graph.with_weights(graph.weights().clone().requires_grad_()), {.max_hops = 8});
  EXPECT_FALSE(LearnedProduct::supports(learned, 9));
  EXPECT_FALSE(LearnedProduct::supports(many, 23));
}

}  // namespace
}  // namespace topomask
