#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "walks/helpers.h"

namespace topomask::testing {
namespace {

const Graph& grid() {
  static const Graph graph = Graph::grid({7, 9}).to(at::kDouble).normalised(.8);
  return graph;
}

at::Tensor dense(const WalkTable& table, const at::Tensor& values) {
  return SparseMatrix{table.pattern(), values}.dense();
}

TEST(WalkFeatures, AreTheSeriesInR) {
  const WalkTable table = sample_walks(grid(), {.walkers = 5, .halting_probability = .3, .max_hops = 9});
  for (const int64_t terms : {0, 1, 4, 10}) {
    at::manual_seed(terms);
    const at::Tensor f = at::randn({3, terms}, at::kDouble);
    const at::Tensor expected = at::einsum("ht,tij->hij", {f, dense_hops(table).narrow(0, 0, terms)});
    EXPECT_TRUE(close(dense(table, walk_features(table, f)), expected, 1e-13));
    EXPECT_TRUE(close(dense(table, walk_features(table, f[1])), expected[1], 1e-13));
  }
}

TEST(WalkFeatures, HaveGradientsOfAnyOrder) {
  const WalkTable table = sample_walks(grid(), {.walkers = 5, .halting_probability = .3, .max_hops = 9});
  at::manual_seed(1);
  const at::Tensor f = at::randn({2, 6}, at::kDouble).set_requires_grad(true);
  const at::Tensor r = dense_hops(table).narrow(0, 0, 6);
  const auto plain = [&](const at::Tensor& function) { return at::einsum("ht,tij->hij", {function, r}); };
  const auto loss = [](const at::Tensor& values) { return (values * values * values).sum(); };
  const auto twice = [&](const at::Tensor& value) {
    const at::Tensor first = torch::autograd::grad({value}, {f}, {}, true, true)[0];
    return std::pair(first, torch::autograd::grad({first.square().sum()}, {f})[0]);
  };
  const auto actual = twice(loss(walk_features(table, f))), expected = twice(loss(plain(f)));
  EXPECT_TRUE(close(actual.first, expected.first, 1e-12));
  EXPECT_TRUE(close(actual.second, expected.second, 1e-12));
}

TEST(WalkFeatures, DoNotDependOnTheNumberOfThreads) {
  const Graph graph = Graph::grid({150, 150}).normalised();
  const WalkTable table = sample_walks(graph);
  const at::Tensor f = at::rand({2, 5}).set_requires_grad(true);
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> values, grads;
  for (const int count : {1, 2, 7}) {
    at::set_num_threads(count);
    values.push_back(walk_features(table, f));
    grads.push_back(torch::autograd::grad({values.back()}, {f}, {at::ones_like(values.back())})[0]);
  }
  at::set_num_threads(threads);
  for (size_t k = 1; k < values.size(); ++k) {
    EXPECT_TRUE(at::equal(values[k], values[0]));
    EXPECT_TRUE(at::equal(grads[k], grads[0]));
  }
}

TEST(WalkFeatures, TakeNonContiguousFunctions) {
  const WalkTable table = sample_walks(grid());
  const at::Tensor f = at::rand({5, 3}, at::kDouble);
  EXPECT_TRUE(at::equal(walk_features(table, f.t()), walk_features(table, f.t().contiguous())));
}

TEST(AdhocFeatures, CountVisits) {
  const WalkTable table = sample_walks(grid(), {.walkers = 4, .halting_probability = .4, .max_hops = 6});
  const at::Tensor f = at::ones({7}, at::kDouble);
  // Every walk contributes its length plus one.
  const at::Tensor total = adhoc_features(table, f).sum() * 4;
  EXPECT_NEAR(total.item<double>(), static_cast<double>(table.counts().sum().item<int64_t>()), 1e-9);
}

TEST(WalkFeatures, RefuseOtherFunctions) {
  const WalkTable table = sample_walks(grid(), {.max_hops = 4});
  EXPECT_ERROR(walk_features(table, at::ones({6}, at::kDouble)),
               "walk_features: f must have at most max_hops + 1 = 5 terms, got Double[6] on cpu");
  EXPECT_ERROR(walk_features(table, at::ones({3})), "walk_features: f must be Double as the loads are, [K] or [H, K]");
  EXPECT_ERROR(walk_features(table, at::ones({1, 1, 3}, at::kDouble)), "[K] or [H, K], on cpu, got Double[1, 1, 3]");
  EXPECT_ERROR(adhoc_features(table, at::Tensor()), "adhoc_features: f must be Double");
}

TEST(WalkFeatures, RefuseDamagedTables) {
  const WalkTable table = sample_walks(grid(), {.max_hops = 4});
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("topomask::walk_features", "");
  const auto call = [&](const at::Tensor& f, const at::Tensor& hops, const at::Tensor& loads,
                        const at::Tensor& offsets) {
    return op.typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, double)>()
        .call(f, hops, loads, offsets, 1.0);
  };
  const at::Tensor f = at::ones({1, 3}, at::kDouble);
  const at::Tensor &hops = table.hops(), &loads = table.loads(), &offsets = table.feature_offsets();
  EXPECT_ERROR(call(f.unsqueeze(0), hops, loads, offsets),
               "walk_features: f must be float32 or float64 with two dimensions");
  EXPECT_ERROR(call(f, hops.to(at::kInt), loads, offsets), "walk_features: hops must be int16 [T] on cpu, got Int");
  EXPECT_ERROR(call(f, hops, loads.to(at::kFloat), offsets), "walk_features: loads must be Double [");
  EXPECT_ERROR(call(f, hops, loads, offsets.to(at::kInt)),
               "walk_features: feature_offsets must be int64 [entries + 1]");
  EXPECT_ERROR(call(f, hops, loads, offsets + 1), "walk_features: feature_offsets must run from 0 to");
}

}  // namespace
}  // namespace topomask::testing
