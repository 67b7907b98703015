#include "masks/grf/learned_product.h"

#include <ATen/core/grad_mode.h>

#include <functional>

#include "masks/grf/grf_testing.h"
#include "support/parameter_changes.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

using testing::close;
using testing::dense_features;
using testing::gradients;
using testing::normal;

Graph street_grid(at::ScalarType dtype) {
  return Graph::grid({9, 7}).normalised().to(at::TensorOptions(dtype));
}

/// A model makes a mask over the same walks in every step: the lists are those of the walks.
TEST(LearnedProduct, ServesMasksWhoseFunctionIsLearned) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const WalkTable walks = sample_walks(street_grid(dtype), {.walkers = 2, .max_hops = 6, .seed = 1});
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
TEST(LearnedProduct, FollowsLoadsThatChangeInPlace) {
  const WalkTable walks = sample_walks(street_grid(at::kDouble), {.walkers = 2, .max_hops = 6, .seed = 1});
  const at::Tensor f = normal({4}, 1).requires_grad_();
  const at::Tensor before = grf_mask(walks, f)->sparse()->dense().detach();
  const auto lists = LearnedProduct::of(walks, 4);
  walks.loads().mul_(2);
  EXPECT_TRUE(close(grf_mask(walks, f)->sparse()->dense(), before * 4, 1e-12));
  EXPECT_NE(LearnedProduct::of(walks, 4), lists);
  EXPECT_EQ(lists.use_count(), 1);
}

/// Masks that exist and new ones, with and without a gradient, by every form.
TEST(LearnedProduct, FollowsLoadsHoweverTheyAreWritten) {
  const Graph graph = street_grid(at::kDouble);
  const at::Tensor f = normal({2, 4}, 1).requires_grad_();
  const auto walk = [&](uint64_t seed) { return sample_walks(graph, {.walkers = 2, .max_hops = 6, .seed = seed}); };
  for (const testing::ParameterChange& change : testing::parameter_changes()) {
    const WalkTable walks = walk(1), others = walk(2);
    const std::vector<std::function<MaskPtr()>> makers{[&] { return grf_mask(walks, f); },
                                                       [&] { return grf_mask(walks, others, f); },
                                                       [&] { return asymmetric_grf_mask(walks, f); }};
    for (size_t i = 0; i < makers.size(); ++i) {
      SCOPED_TRACE(change.name + ", mask " + std::to_string(i));
      const auto expected = [&] {
        const at::Tensor phi = dense_features(walks, f.detach());
        return i == 2 ? phi : at::matmul(phi, i == 0 ? phi.mT() : dense_features(others, f.detach()).mT());
      };
      const auto expect_current = [&](const MaskPtr& mask) {
        const at::Tensor want = expected(), x = normal({2, 63, 3}, 5);
        EXPECT_TRUE(close(mask->sparse()->dense(), want, 1e-11)) << "recorded";
        const at::NoGradGuard no_grad;
        EXPECT_TRUE(close(mask->sparse()->dense(), want, 1e-11)) << "sparse";
        EXPECT_TRUE(close(mask->dense(), want, 1e-11)) << "dense";
        EXPECT_TRUE(close(mask->matmul(x), at::matmul(want, x), 1e-11)) << "matmul";
        const Factors factors = *mask->factors();
        const at::Tensor product = at::matmul(factors.left.sparse->dense(), factors.right.sparse->dense().mT());
        EXPECT_TRUE(close(product, want, 1e-11)) << "factors";
      };
      const MaskPtr mask = makers[i]();
      const at::Tensor before = expected();
      for (int call = 0; call < 2; ++call) expect_current(mask);
      at::Tensor loads = walks.loads();
      change.write(loads);
      EXPECT_FALSE(close(expected(), before, 1e-3));
      expect_current(mask);
      expect_current(makers[i]());
    }
  }
}

/// Inference tensors have no version.
TEST(LearnedProduct, FollowsLoadsThatAreInferenceTensors) {
  const c10::InferenceMode inference;
  const WalkTable walks = sample_walks(street_grid(at::kDouble), {.walkers = 2, .max_hops = 6, .seed = 1});
  const c10::InferenceMode ordinary(false);
  ASSERT_TRUE(walks.loads().is_inference());
  const at::Tensor f = normal({4}, 1).requires_grad_();
  for (int step = 0; step < 2; ++step) {
    const at::Tensor phi = dense_features(walks, f.detach());
    EXPECT_TRUE(close(grf_mask(walks, f)->sparse()->dense(), at::matmul(phi, phi.mT()), 1e-11));
    at::from_blob(walks.loads().data_ptr(), {walks.loads().numel()}, at::kDouble).mul_(2);
  }
}

TEST(LearnedProduct, LeavesLongWalksAndLearnedLoadsToTheProduct) {
  const WalkTable many =
      sample_walks(street_grid(at::kDouble), {.walkers = 40, .halting_probability = 0.1, .max_hops = 8});
  const at::Tensor f = normal({9}, 1).requires_grad_();
  for (int step = 0; step < 4; ++step) grf_mask(many, f)->sparse();
  EXPECT_FALSE(LearnedProduct::of(many, 9)->has_lists());
  const Graph graph = street_grid(at::kDouble);
  const WalkTable learned = sample_walks(graph.with_weights(graph.weights().clone().requires_grad_()), {.max_hops = 8});
  EXPECT_FALSE(LearnedProduct::supports(learned, 9));
  EXPECT_FALSE(LearnedProduct::supports(many, 23));
}

}  // namespace
}  // namespace topomask
