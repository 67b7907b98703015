#include "support/compare.h"
#include "topomask/attention.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TEST(AttentionArguments, EpsIsFiniteAndFitsTheTypeOfTheSums) {
  const at::Tensor x = at::rand({3, 2}), y = x.to(at::kDouble);
  const MaskPtr mask = none_mask(3);
  EXPECT_ERROR(attention(x, x, x, mask, {.eps = INFINITY}), "attention: eps must be finite, got inf");
  EXPECT_ERROR(attention(x, x, x, mask, {.eps = NAN}), "attention: eps must be > 0, got nan");
  EXPECT_ERROR(attention(x, x, x, mask, {.eps = 1e-60}),
               "attention: eps must be in the range of float32 for inputs that are not float64, got 1e-60");
  EXPECT_ERROR(attention(x, x, x, mask, {.eps = 1e60}),
               "eps must be in the range of float32 for inputs that are not float64");
  EXPECT_EQ(attention(y, y, y, mask, {.eps = 1e-60}).sizes(), y.sizes());
  EXPECT_ERROR(explain(x, x, x, mask, {.eps = INFINITY}), "explain: eps must be finite, got inf");
  EXPECT_ERROR(softmax_attention(x, x, x, mask, {.eps = INFINITY}), "softmax_attention: eps must be finite, got inf");
}

TEST(AttentionArguments, TheScaleOfSoftmaxIsFinite) {
  const at::Tensor x = at::rand({3, 2});
  EXPECT_ERROR(softmax_attention(x, x, x, none_mask(3), {.scale = NAN}),
               "softmax_attention: scale must be finite, got nan");
  EXPECT_ERROR(softmax_attention(x, x, x, none_mask(3), {.scale = -INFINITY}),
               "softmax_attention: scale must be finite, got -inf");
}

TEST(AttentionArguments, TheBudgetIsNotNegative) {
  const at::Tensor x = at::rand({3, 2});
  EXPECT_ERROR(attention(x, x, x, none_mask(3), {.route = Route::dense, .memory_budget = -1}),
               "attention: memory_budget must be >= 0, got -1");
  EXPECT_ERROR(softmax_attention(x, x, x, none_mask(3), {.memory_budget = -1}), "memory_budget must be >= 0, got -1");
}

TEST(AttentionArguments, WorkloadsOfThePlannerAreCounts) {
  const MaskPtr mask = none_mask(3);
  EXPECT_ERROR(plan_attention(*mask, {.slices = -1}), "plan_attention: slices must be >= 0, got -1");
  EXPECT_ERROR(plan_attention(*mask, {.heads = 0}), "plan_attention: heads must be >= 1, got 0");
  EXPECT_ERROR(plan_attention(*mask, {.nodes = -3}), "plan_attention: nodes must be >= 0, got -3");
  EXPECT_ERROR(plan_attention(*mask, {.threads = 0}), "plan_attention: threads must be >= 1, got 0");
  EXPECT_ERROR(plan_softmax(*mask, {.features = -1}, false), "plan_softmax: features must be >= 0, got -1");
  EXPECT_ERROR(plan_softmax(*mask, {}, false, -1), "plan_softmax: memory_budget must be >= 0, got -1");
}

TEST(AttentionArguments, ThePlannerTakesTheDtypesOfTheDevice) {
  const MaskPtr mask = none_mask(3);
  EXPECT_ERROR(plan_attention(*mask, {.dtype = at::kHalf}),
               "plan_attention: dtype must be float64, float32 or bfloat16 on cpu, got Half");
  EXPECT_ERROR(plan_softmax(*mask, {.dtype = at::kLong, .device = at::kCUDA}, false),
               "plan_softmax: dtype must be float64, float32, bfloat16 or float16 on cuda, got Long");
  EXPECT_NO_THROW(plan_attention(*mask, {.dtype = at::kHalf, .device = at::kCUDA}));
}

TEST(FeatureMapArguments, DirectionsAreFiniteAndBounded) {
  at::Tensor omega = at::ones({4, 2});
  omega[3][1] = NAN;
  EXPECT_ERROR(FeatureMap::favor(omega), "FeatureMap::favor: omega must be finite, got nan at [3, 1]");
  EXPECT_ERROR(FeatureMap::favor(at::ones({4, 0})), "FeatureMap::favor: omega must have d_k >= 1 columns");
  EXPECT_ERROR(FeatureMap::favor(2, kHuge), "favor_directions: features x head_dim must be at most 2147483647");
  EXPECT_ERROR(favor_directions(1, 1 << 20, 0), "favor_directions: head_dim x head_dim must be at most 2147483647");
  EXPECT_ERROR(FeatureMap::relu(-1), "FeatureMap::relu: offset must be >= 0, so that no feature is negative, got -1");
  EXPECT_ERROR(FeatureMap::relu(NAN), "FeatureMap::relu: offset must be finite, got nan");
}

}  // namespace
}  // namespace topomask
