// The route strips over several strips of rows, against the dense one, for masks without tiles.

#include <ATen/Parallel.h>

#include <limits>

#include "support/compare.h"
#include "support/mask_contract.h"
#include "support/peak_memory.h"
#include "topomask/attention.h"
#include "topomask/diffusion.h"
#include "topomask/forest.h"
#include "topomask/global_tokens.h"
#include "topomask/grf.h"
#include "topomask/masks.h"
#include "topomask/per_head.h"
#include "topomask/power_series.h"
#include "topomask/toeplitz.h"
#include "topomask/walking_mask.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;
using testing::normal;

constexpr int64_t kSide = 34, kNodes = kSide * kSide;  // several strips: one has 2²⁰ values

struct Named {
  std::string name;
  MaskPtr mask;
};

at::Tensor learned(std::vector<double> values, at::ScalarType type = at::kDouble) {
  return at::tensor(values, type).requires_grad_();
}

/// A parent before each node: a tree that is neither a path nor a star.
Forest tree(int64_t nodes, at::ScalarType type = at::kDouble) {
  const at::Tensor parent = at::arange(nodes, at::kLong).sub_(1).div_(3, "floor");
  parent[0] = -1;
  return Forest(parent, at::ones({nodes}, type));
}

std::vector<Named> without_tiles() {
  const Graph grid = Graph::grid({kSide, kSide}).to(at::kDouble).normalised(0.9);
  const WalkTable walks = sample_walks(grid, {.walkers = 4, .halting_probability = 0.4, .max_hops = 5, .seed = 3});
  const at::Tensor a = learned({-0.4}), f = learned({1.0, 0.6, -0.3, 0.2});
  const MaskPtr line = toeplitz_mask({kNodes}, (normal({2 * kNodes - 1}, 5).abs() + 0.1).requires_grad_());
  const MaskPtr series = power_series_mask(grid, learned({1.0, 0.5, 0.25}));
  SparseMatrix third = Graph::erdos_renyi(kNodes, 0.3, 4).to(at::kDouble).matrix();
  third.values = (normal({third.pattern->entries()}, 6).abs() + 0.1).requires_grad_();
  const auto smooth = DistanceFunction::smooth([](double d) { return 1 / (1 + d); }, 1e-10);
  return {{"exponential tree", tree_mask(tree(kNodes), DistanceFunction::exponential(a))},
          {"table on a tree", tree_mask(tree(kNodes), DistanceFunction::table(f))},
          {"smooth on a tree", tree_mask(tree(kNodes), smooth)},
          {"diffusion", diffusion_mask(grid, learned({0.3}), {.tolerance = 1e-10})},
          {"product diffusion",
           product_diffusion_mask({Graph::path(kSide).to(at::kDouble), Graph::cycle(kSide).to(at::kDouble)},
                                  learned({0.2}))},
          {"walking", walking_mask(grid, f, {.walkers = 3, .max_hops = 4, .seed = 5})},
          {"series", series},
          {"a third of all entries", sparse_mask(third)},
          {"series, two heads", power_series_mask(grid, learned({1.0, 0.5, 0.3, 0.9, 0.1, 0.2}).view({2, 3}))},
          {"walks", grf_mask(walks, f)},
          {"walks and tokens", with_global_tokens(grf_mask(walks, f), 3)},
          {"two kinds", per_head_mask({line, series})}};
}

/// The output and the gradients.
template <class F>
std::vector<at::Tensor> all(const MaskPtr& mask, at::ScalarType type, const F& attend) {
  const int64_t heads = mask->heads(), nodes = mask->size();
  const auto rows = [&](int64_t width, uint64_t seed) {  // nodes first in memory
    return normal({2, nodes, heads, width}, seed).to(type).requires_grad_();
  };
  std::vector<at::Tensor> inputs{rows(5, 1), rows(5, 2), rows(4, 3)};
  const at::Tensor out = attend(inputs[0].transpose(1, 2), inputs[1].transpose(1, 2), inputs[2].transpose(1, 2));
  for (const at::Tensor& p : mask->parameters()) {
    if (p.requires_grad()) inputs.push_back(p);
  }
  std::vector<at::Tensor> result = gradients(out, normal({2, heads, nodes, 4}, 4).to(type), inputs);
  result.push_back(out);
  return result;
}

/// f(name, attend) for kernel attention and both softmaxes, attend(route, q, k, v).
template <class F>
void for_each_attention(const MaskPtr& mask, const F& f) {
  f("kernel", [&](Route route, const auto& q, const auto& k, const auto& v) {
    return attention(q, k, v, mask, {.features = FeatureMap::elu(), .route = route});
  });
  for (const SoftmaxMask way : {SoftmaxMask::additive, SoftmaxMask::multiplicative}) {
    f(way == SoftmaxMask::additive ? "additive" : "multiplicative",
      [&, way](Route route, const auto& q, const auto& k, const auto& v) {
        return softmax_attention(q, k, v, mask, {.mask = way, .route = route});
      });
  }
}

TEST(Strips, AreTheDenseRoute) {
  for (const auto& [name, mask] : without_tiles()) {
    for_each_attention(mask, [&, &name = name, &mask = mask](const char* what, const auto& attend) {
      const auto by = [&](Route route) {
        return all(mask, at::kDouble, [&](const auto&... x) { return attend(route, x...); });
      };
      const auto expected = by(Route::dense), actual = by(Route::strips);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(close(actual[i], expected[i], 1e-8, 1e-3)) << name << ", " << what << ", tensor " << i;
      }
    });
  }
}

TEST(Strips, DoNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  for (const auto& [name, mask_in] : without_tiles()) {
    const MaskPtr mask = mask_in->to(at::kFloat);
    for_each_attention(mask, [&, &name = name](const char* what, const auto& attend) {
      const auto run = [&](int count) {
        at::set_num_threads(count);
        return all(mask, at::kFloat, [&](const auto&... x) { return attend(Route::strips, x...); });
      };
      const auto one = run(1);
      for (const int count : {2, 7}) {
        const auto other = run(count);
        for (size_t i = 0; i < one.size(); ++i) {
          EXPECT_TRUE(at::equal(one[i], other[i])) << name << ", " << what << ", tensor " << i << ", " << count;
        }
      }
    });
  }
  at::set_num_threads(threads);
}

TEST(Strips, KeepSumsInFloat32BesideBFloat16) {
  const MaskPtr mask = power_series_mask(Graph::grid({kSide, kSide}).normalised(0.9), learned({1.0, 0.5}, at::kFloat));
  const auto by = [&](Route route, at::ScalarType type) {
    const MaskPtr there = mask->to(type == at::kDouble ? at::kDouble : at::kFloat);
    return all(there, type, [&](const auto&... x) {
      return softmax_attention(x..., there, {.mask = SoftmaxMask::additive, .route = route});
    });
  };
  const auto narrow = by(Route::strips, at::kBFloat16), wide = by(Route::dense, at::kDouble);
  EXPECT_EQ(narrow.back().scalar_type(), at::kBFloat16);
  for (const size_t i : {0, 1, 2, 3}) EXPECT_TRUE(close(narrow[i], wide[i], 4e-2)) << i;
  EXPECT_TRUE(close(narrow.back(), wide.back(), 2e-2));
}

TEST(Strips, AreTakenWhereNothingElseHoldsNoMatrix) {
  constexpr int64_t kLarge = 6144;  // N×N in float32: 144 MiB
  const at::Tensor x = at::rand({kLarge, 16}).requires_grad_();
  const MaskPtr series = power_series_mask(Graph::cycle(kLarge).normalised(0.9), learned({1.0, 0.5}, at::kFloat));
  const MaskPtr distances =
      tree_mask(tree(kLarge, at::kFloat), DistanceFunction::table(learned({1.0, 0.5}, at::kFloat)));
  for (const MaskPtr& mask : {series, distances}) {
    const Plan plan = plan_softmax(*mask, {.nodes = kLarge, .features = 16, .value_dim = 16, .training = true}, true);
    EXPECT_EQ(plan.route, Route::strips) << plan;
    EXPECT_EQ(plan.estimates[0].reason, "strips computes it without N x N matrices") << plan;
    EXPECT_LT(plan.estimates[1].bytes, 64 << 20) << plan;
    const auto train = [&] { softmax_attention(x, x, x, mask, {.mask = SoftmaxMask::additive}).sum().backward(); };
    EXPECT_LT(testing::peak_growth(train), 96 << 20) << mask->name();  // two thirds of one matrix
  }
}

TEST(Strips, LeaveSmallMatricesToTheDenseRoute) {
  const auto plan = [](int64_t slices, int64_t nodes, bool training) {
    const MaskPtr mask = power_series_mask(Graph::cycle(nodes).normalised(0.9), at::ones({2}));
    const Workload w{.slices = slices, .nodes = nodes, .features = 16, .value_dim = 16, .training = training};
    return plan_softmax(*mask, w, true);
  };
  for (const bool training : {false, true}) {
    const int64_t strips = training ? 4 : 1;
    for (const auto& [slices, nodes] : {std::pair<int64_t, int64_t>{16, 256}, {1, 1024}}) {  // 2²⁰ values: one strip
      EXPECT_EQ(plan(strips * slices, nodes, training).route, Route::dense) << slices;
      const Plan larger = plan(strips * slices + 1, nodes, training);
      EXPECT_EQ(larger.route, Route::strips) << larger;
      EXPECT_EQ(larger.estimates[0].reason, "strips computes it without N x N matrices") << larger;
    }
  }
  EXPECT_EQ(plan(1, 1025, false).route, Route::strips);
  EXPECT_EQ(plan(1, 2049, true).route, Route::strips);
}

TEST(Strips, OfASparseMaskComeFromItsEntriesHoweverMany) {
  const MaskPtr mask = neighbours_mask(Graph::erdos_renyi(1536, 0.5));
  const Plan plan = plan_softmax(*mask, {.nodes = 1536, .features = 64, .value_dim = 64}, true);
  ASSERT_EQ(plan.route, Route::strips) << plan;
  const Plan named = plan_softmax(*causal_mask(1536), {.nodes = 1536, .features = 64, .value_dim = 64}, true);
  const double fused = named.estimates.back().seconds;  // as many pairs, and no mask to be made
  EXPECT_LT(plan.estimates[1].seconds, 4 * fused) << plan << named;
}

/// Rows by products Mᵀ·e_i would have 0·(−∞) in them.
TEST(Strips, KeepPairsThatMinusInfinityExcludes) {
  const double none = -std::numeric_limits<double>::infinity();
  const auto options = at::dtype(at::kDouble);
  const at::Tensor later =
      at::zeros({kNodes, kNodes}, options).masked_fill(at::ones({kNodes, kNodes}).triu(1) > 0, none);
  SparseMatrix half = Graph::erdos_renyi(kNodes, 0.5, 4).to(at::kDouble).matrix();
  const at::Tensor values = normal({half.pattern->entries()}, 6);
  half.values = values.masked_fill(values > 1, none);
  const MaskPtr series = power_series_mask(Graph::cycle(kNodes).to(at::kDouble).normalised(0.9), learned({1.0, 0.5}));
  for (const MaskPtr& mask :
       {dense_mask(later), per_head_mask({dense_mask(later), series}), with_global_tokens(sparse_mask(half), 2),
        with_global_tokens(per_head_mask({dense_mask(later), series}), 3),
        per_head_mask({sparse_mask(half), series})}) {
    const auto by = [&](Route route) {
      return all(mask, at::kDouble, [&](const auto&... x) {
        return softmax_attention(x..., mask, {.mask = SoftmaxMask::additive, .route = route});
      });
    };
    const auto expected = by(Route::dense), actual = by(Route::strips);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(expected[i].isfinite().all().item<bool>()) << mask->name() << ", tensor " << i;
      EXPECT_TRUE(close(actual[i], expected[i], 1e-8, 1e-3)) << mask->name() << ", tensor " << i;
    }
  }
}

TEST(Strips, MakeNoSparseFormThatTheBudgetDoesNotAllow) {
  constexpr int64_t kLarge = 4096;
  const MaskPtr mask = power_series_mask(Graph::grid({64, 64}).normalised(0.9), at::full({13}, 0.1F));
  const Workload work{.nodes = kLarge, .features = 8, .value_dim = 8};
  const auto strips = [&](int64_t budget) {
    const Plan plan = plan_softmax(*mask, work, true, budget);
    EXPECT_EQ(plan.route, Route::strips) << plan;
    return plan.estimates[1];
  };
  const double entries = *mask->counts().sparse_entries;
  const RouteEstimate rich = strips(kDefaultMemoryBudget), poor = strips(static_cast<int64_t>(rich.bytes) - 1);
  EXPECT_GT(rich.bytes, 8 * entries);
  EXPECT_LT(poor.bytes, rich.bytes - 7 * entries);
  const at::Tensor x = normal({kLarge, 8}, 1).to(at::kFloat);
  const auto by = [&](int64_t budget) {
    return softmax_attention(x, x, x, mask,
                             {.mask = SoftmaxMask::additive, .route = Route::strips, .memory_budget = budget});
  };
  EXPECT_TRUE(close(by(static_cast<int64_t>(poor.bytes)), by(kDefaultMemoryBudget), 1e-5));
}

TEST(Strips, AreAskedWhereFusedIsOverTheBudget) {
  const MaskPtr mask = toeplitz_mask({128, 128}, at::zeros({255, 255}));
  const Workload work{.nodes = 16384, .features = 64, .value_dim = 64, .training = true};
  EXPECT_EQ(plan_softmax(*mask, work, true).route, Route::fused);
  EXPECT_EQ(plan_softmax(*mask, work, true, 100'000'000).route, Route::strips);
}

TEST(Strips, AreANameForEmptyAndSingleNodes) {
  for (const int64_t nodes : {0, 1}) {
    const MaskPtr mask = neighbours_mask(Graph::path(nodes));
    const at::Tensor x = at::rand({2, nodes, 3});
    EXPECT_TRUE(close(attention(x, x, x, mask, {.route = Route::strips}), x, 1e-5));
  }
}

}  // namespace
}  // namespace topomask
