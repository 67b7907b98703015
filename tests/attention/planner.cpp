#include "topomask/planner.h"

#include <sstream>

#include "support/compare.h"
#include "topomask/attention.h"
#include "topomask/encodings.h"
#include "topomask/forest.h"
#include "topomask/masks.h"
#include "topomask/per_head.h"
#include "topomask/power_series.h"

namespace topomask {
namespace {

Workload workload(int64_t nodes) {
  return {.nodes = nodes, .features = 64, .value_dim = 64, .threads = 2};
}

TEST(Planner, TakesTheSparseRouteOnALargeSparseMask) {
  const MaskPtr mask = power_series_mask(Graph::grid({128, 128}).normalised(0.9), at::ones({4}));
  const Plan plan = plan_attention(*mask, workload(128 * 128));
  EXPECT_EQ(plan.route, Route::sparse);
  EXPECT_EQ(plan.estimates.size(), 6u);
}

TEST(Planner, TakesTheFusedRouteOnAFullMask) {
  EXPECT_EQ(plan_attention(*dense_mask(at::ones({64, 64})), workload(64)).route, Route::fused);
  const Plan large = plan_attention(*dense_mask(at::ones({2048, 2048})), workload(2048), 1 << 20);
  EXPECT_EQ(large.route, Route::fused) << large;  // no N×N matrix beyond the mask
  EXPECT_EQ(large.estimates[0].reason, "fused computes it without N x N matrices");
}

TEST(Planner, TakesTheFusedRouteOnAGpuInEveryDtype) {
  const MaskPtr full = dense_mask(at::ones({2048, 2048})), factors = free_features_mask(at::ones({2048, 8}));
  for (const MaskPtr& mask : {full, factors}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
      for (const int64_t width : {1, 64, 129, 256, 257}) {
        Workload there{.nodes = 2048, .features = width, .value_dim = width, .dtype = dtype, .device = at::kCUDA};
        EXPECT_EQ(plan_softmax(*mask, there, true).estimates.back().available, width <= 256) << dtype << ' ' << width;
        if (mask != full || width > 256) continue;
        EXPECT_EQ(plan_attention(*mask, there).route, Route::fused) << dtype << ' ' << width;
      }
    }
  }
  Workload wide{.nodes = 2048, .features = 64, .value_dim = 64, .dtype = at::kDouble, .device = at::kCUDA};
  EXPECT_FALSE(plan_attention(*full, wide).estimates.back().available);
}

TEST(Planner, TakesLinearAttentionWithoutAMask) {
  EXPECT_EQ(plan_attention(*none_mask(16384), workload(16384)).route, Route::features);
}

TEST(Planner, TakesTheOperatorWhereNothingElseIsOffered) {
  EXPECT_EQ(plan_attention(*causal_mask(16384), workload(16384)).route, Route::operator_);
}

TEST(Planner, LeavesOutWhatIsOverTheBudget) {
  const MaskPtr mask = power_series_mask(Graph::grid({64, 64}).normalised(0.9), at::ones({17}));
  const Workload narrow{.nodes = 4096, .features = 16, .value_dim = 16, .threads = 2};
  const Plan rich = plan_attention(*mask, narrow);
  EXPECT_EQ(rich.route, Route::sparse) << rich;
  const Plan poor = plan_attention(*mask, narrow, static_cast<int64_t>(rich.estimates[1].bytes) - 1);
  EXPECT_NE(poor.route, Route::sparse) << poor;
  EXPECT_EQ(poor.estimates[1].reason, "over the memory budget");
  EXPECT_ERROR(plan_attention(*mask, narrow, 1 << 10), "attention: memory_budget must allow one route, got 1024 bytes");
  EXPECT_ERROR(plan_softmax(*mask, narrow, true, 1 << 10), "softmax_attention: memory_budget must allow one route");
}

TEST(Planner, FormsNoMatrixOfItsOwnAccordOnTheCpu) {
  const MaskPtr mask = per_head_mask({dense_mask(at::ones({2048, 2048})), causal_mask(2048)});  // offers no tiles
  Workload two = workload(2048);
  two.slices = two.heads = 2;
  EXPECT_EQ(plan_attention(*mask, two).route, Route::strips);
}

TEST(Planner, KnowsThatSlicesOverFewNodesStayInACache) {
  const auto per_node = [](int64_t nodes) {
    const MaskPtr mask =
        tree_mask(Forest(at::arange(nodes, at::kLong) - 1), DistanceFunction::exponential(at::full({}, -0.5F)));
    return plan_attention(*mask, workload(nodes)).estimates[3].seconds / static_cast<double>(nodes);
  };
  EXPECT_LT(per_node(1024), 0.6 * per_node(8192));
}

TEST(Planner, ExplainsItself) {
  const MaskPtr mask = neighbours_mask(Graph::grid({64, 64}));
  const at::Tensor x = at::rand({3, 4096, 16});
  std::ostringstream text;
  text << explain(x, x, x, mask);
  EXPECT_NE(text.str().find("mask neighbours: N 4096, batch x heads 3, m 16, d 16"), std::string::npos) << text.str();
  for (const char* word : {"dense", "sparse", "features", "operator", "chosen", "x the time", "estimated fastest"}) {
    EXPECT_NE(text.str().find(word), std::string::npos) << word << " in\n" << text.str();
  }
  std::ostringstream causal;
  causal << explain(x, x, x, causal_mask(4096));
  EXPECT_NE(causal.str().find("M has no sparse form"), std::string::npos);
  EXPECT_NE(causal.str().find("M has no factors"), std::string::npos);
}

TEST(Planner, KnowsWhatATensorCoreTakes) {
  const auto route = [](int64_t side, int64_t hops, at::ScalarType dtype) {
    const MaskPtr mask = power_series_mask(Graph::grid({side, side}).normalised(0.9), at::ones({hops + 1}));
    Workload w = workload(side * side);
    w.device = at::kCUDA;
    w.dtype = dtype;
    w.slices = std::max<int64_t>(1, 400000 / w.nodes);
    return plan_attention(*mask, w, int64_t{1} << 36).route;
  };
  EXPECT_EQ(route(128, 3, at::kBFloat16), Route::sparse);
  EXPECT_EQ(route(16, 4, at::kBFloat16), Route::sparse);  // 0.17 against 0.37 ms on an H200
  EXPECT_EQ(route(16, 30, at::kBFloat16), Route::dense);  // a full mask
  EXPECT_EQ(route(16, 10, at::kFloat), Route::dense);     // no tiles in float32
}

TEST(Planner, NeverPicksARouteThatItsKernelRefuses) {
  const MaskPtr mask = neighbours_mask(Graph::grid({64, 64}));
  const auto offers_sparse = [&](int64_t features, at::ScalarType dtype, at::DeviceType device) {
    Workload w = workload(4096);
    w.device = device;
    w.dtype = dtype;
    w.features = features;
    const Plan plan = plan_attention(*mask, w, int64_t{1} << 36);
    EXPECT_EQ(plan.estimates[1].route, Route::sparse);
    EXPECT_TRUE(plan.estimates[1].available || plan.route != Route::sparse);
    return plan.estimates[1].available;
  };
  EXPECT_TRUE(offers_sparse(512, at::kFloat, at::kCUDA));
  EXPECT_FALSE(offers_sparse(1024, at::kFloat, at::kCUDA));  // FAVOR+ with many features in float32
  EXPECT_TRUE(offers_sparse(1024, at::kBFloat16, at::kCUDA));
  EXPECT_FALSE(offers_sparse(260, at::kDouble, at::kCUDA));
  EXPECT_TRUE(offers_sparse(1024, at::kFloat, at::kCPU));
}

TEST(Planner, CountsTheWayBackWhereGradientsAreWanted) {
  const MaskPtr mask = power_series_mask(Graph::grid({14, 14}).normalised(0.9), at::ones({11}));
  const at::Tensor x = at::rand({1, 196, 16});
  const auto estimates = [&](bool training) {
    std::ostringstream text;
    const Plan plan = explain(x, x, x.detach().requires_grad_(training), mask);
    text << plan;
    EXPECT_EQ(text.str().find("forward and backward") != std::string::npos, training) << text.str();
    return plan.estimates;
  };
  const auto forward = estimates(false), both = estimates(true);
  for (size_t r = 0; r < forward.size(); ++r) {
    EXPECT_GE(both[r].seconds, 3 * forward[r].seconds);
  }
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(explain(x, x, x.detach().requires_grad_(), mask).workload.training);
}

TEST(Planner, CountsTheFeaturesTheMapMakes) {
  const at::Tensor x = at::rand({9, 8});
  const Plan plan = explain(x, x, x, neighbours_mask(Graph::path(9)), {.features = FeatureMap::favor(8, 32)});
  EXPECT_EQ(plan.workload.features, 32);
}

}  // namespace
}  // namespace topomask
