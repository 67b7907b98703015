// What the planner estimates for a GPU against what an H200 took (docs/performance-gpu.md).

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "topomask/encodings.h"
#include "topomask/planner.h"
#include "topomask/toeplitz.h"

namespace topomask {
namespace {

RouteEstimate fused_of(const Plan& plan) {
  for (const RouteEstimate& estimate : plan.estimates) {
    if (estimate.route == Route::fused) return estimate;
  }
  return {};
}

Workload on_cuda(int64_t slices, int64_t nodes, bool training) {
  return {.slices = slices,
          .heads = 12,
          .nodes = nodes,
          .features = 64,
          .value_dim = 64,
          .dtype = at::kBFloat16,
          .device = at::kCUDA,
          .training = training};
}

TEST(PlannerCuda, EstimatesAreWithinAFactorOfWhatWasMeasured) {
  struct Measured {
    int64_t side, slices;
    double forward, both, softmax_forward, softmax_both;  // milliseconds
  };
  for (const Measured& m : {Measured{16, 768, 0.129, 0.750, 0.187, 0.979},
                            {32, 192, 0.215, 1.39, 0.325, 1.72},
                            {64, 48, 0.625, 2.98, 0.891, 4.18},
                            {128, 12, 2.21, 11.0, 3.18, 15.8}}) {
    const MaskPtr mask = toeplitz_mask({m.side, m.side}, at::rand({12, 2 * m.side - 1, 2 * m.side - 1}));
    const auto expect = [&](const Plan& plan, double milliseconds) {
      const double ratio = fused_of(plan).seconds * 1e3 / milliseconds;
      EXPECT_GT(ratio, 1 / 1.5) << plan;
      EXPECT_LT(ratio, 1.5) << plan;
    };
    for (const bool training : {false, true}) {
      const Workload work = on_cuda(m.slices, m.side * m.side, training);
      expect(plan_attention(*mask, work), training ? m.both : m.forward);
      expect(plan_softmax(*mask, work, true), training ? m.softmax_both : m.softmax_forward);
    }
  }
}

// Sixteen columns of factors under kernel attention, whose gradient adds up a share of every slice.
TEST(PlannerCuda, CountsTheGradientOfFactors) {
  struct Measured {
    int64_t nodes, slices;
    double fused, features;  // milliseconds, forward and backward
  };
  for (const Measured& m : {Measured{196, 1002, 28.8, 18.5}, {1024, 192, 33.0, 18.2}, {4096, 48, 64.4, 24.3}}) {
    const MaskPtr mask = free_features_mask(at::rand({3, m.nodes, 16}), at::rand({3, m.nodes, 16}));
    Workload work = on_cuda(m.slices, m.nodes, true);
    work.heads = 3;
    const Plan plan = plan_attention(*mask, work);
    EXPECT_EQ(plan.route, Route::features) << plan;
    EXPECT_GT(fused_of(plan).seconds * 1e3, m.fused / 1.5) << plan;
    EXPECT_LT(fused_of(plan).seconds * 1e3, m.fused * 1.5) << plan;
  }
}

TEST(PlannerCuda, FactorsThatFitBesideTheRowsTakeTheFastKernels) {
  const auto seconds = [](int64_t rank) {
    const MaskPtr mask = free_features_mask(at::rand({4096, rank}), at::rand({4096, rank}));
    return fused_of(plan_softmax(*mask, on_cuda(48, 4096, false), true)).seconds;
  };
  EXPECT_GT(seconds(22), 3 * seconds(21));
}

TEST(PlannerCuda, OffsetsOfMoreTilesThanAreListedAreNotLearnedByTheFusedRoute) {
  const auto offered = [](int64_t nodes, bool training, bool learned) {
    const MaskPtr mask = toeplitz_mask({nodes}, at::rand({2 * nodes - 1}).requires_grad_(learned));
    return fused_of(plan_attention(*mask, on_cuda(12, nodes, training), int64_t{1} << 40)).available;
  };
  EXPECT_TRUE(offered(524288, true, true));
  EXPECT_FALSE(offered(524289, true, true));
  EXPECT_TRUE(offered(524289, true, false));  // queries, keys and values are trained alone
  EXPECT_TRUE(offered(524289, false, true));
}

}  // namespace
}  // namespace topomask
