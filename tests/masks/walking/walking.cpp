#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/mask_contract.h"
#include "support/peak_memory.h"
#include "topomask/attention.h"
#include "topomask/grf.h"
#include "topomask/walking_mask.h"

namespace topomask {
namespace {

Graph small_graph() {
  return Graph::grid({5, 7}).normalised(0.8).to(at::kDouble);
}

at::Tensor decay(int64_t terms) {
  return at::pow(0.6, at::arange(terms, at::kDouble));
}

TEST(WalkingMask, IsTheTableOfTheSameWalks) {
  for (const Coupling coupling : {Coupling::independent, Coupling::antithetic, Coupling::repelling}) {
    const WalkOptions options{.walkers = 6, .halting_probability = 0.3, .max_hops = 5, .coupling = coupling, .seed = 3};
    const Graph graph = small_graph();
    const at::Tensor f = decay(6).requires_grad_();
    const WalkTable table = sample_walks(graph, options);
    testing::expect_mask_is(walking_mask(graph, f, options), asymmetric_grf_mask(table, f)->dense());
  }
}

TEST(WalkingMask, TakesAFunctionPerHeadShorterThanTheWalks) {
  const WalkOptions options{.walkers = 3, .fixed_hops = 4, .seed = 5};
  const at::Tensor f = at::stack({decay(3), 1.5 - decay(3)}).requires_grad_();
  const Graph graph = small_graph();
  testing::expect_mask_is(walking_mask(graph, f, options),
                          asymmetric_grf_mask(sample_walks(graph, options), f)->dense());
}

TEST(WalkingMask, AddsUpWalkersThatGoOutInParts) {
  const Graph graph = Graph::grid({4, 9}).normalised(0.8).to(at::kDouble);
  for (const Coupling coupling : {Coupling::independent, Coupling::repelling}) {
    const WalkOptions options{.walkers = 24000,
                              .fixed_hops = 5,
                              .coupling = coupling,
                              .ensemble = coupling == Coupling::repelling ? 8000 : 0,
                              .seed = 8};
    const at::Tensor f = decay(6).requires_grad_(), g = decay(6).requires_grad_();
    const MaskPtr walking = walking_mask(graph, f, options),
                  table = asymmetric_grf_mask(sample_walks(graph, options), g);
    const at::Tensor x = at::rand({36, 5}, at::kDouble) + 0.1, a = x.clone().requires_grad_(),
                     b = x.clone().requires_grad_();
    EXPECT_TRUE(testing::close(walking->matmul_transposed(x), table->matmul_transposed(x), 1e-10));
    const at::Tensor out = attention(a, a, a, walking), expected = attention(b, b, b, table);
    EXPECT_TRUE(testing::close(out, expected, 1e-10));
    const auto grads = testing::gradients(out, x, {a, f}), wanted = testing::gradients(expected, x, {b, g});
    for (size_t i = 0; i < grads.size(); ++i) EXPECT_TRUE(testing::close(grads[i], wanted[i], 1e-9));
  }
}

TEST(WalkingMask, ManyWalkersTakeNoMoreMemoryThanFew) {
  const Graph graph = Graph::grid({20, 20}).normalised();
  const MaskPtr mask = walking_mask(graph, decay(10).to(at::kFloat), {.walkers = 4000, .fixed_hops = 9});
  const at::Tensor x = at::ones({400, 16});
  const int64_t growth = testing::peak_growth([&] { mask->matmul_transposed(x); });
  if (growth < 0) GTEST_SKIP() << "the peak of memory cannot be measured here";
  EXPECT_LT(growth, int64_t{200} << 20);  // all visits would take 400·4000·10·30 bytes
}

TEST(WalkingMask, StaysOnIsolatedNodesAndTakesNone) {
  const Graph lonely = Graph::from_edges(3, at::empty({0}, at::kLong), at::empty({0}, at::kLong)).to(at::kDouble);
  const at::Tensor f = decay(2).requires_grad_();
  testing::expect_mask_is(walking_mask(lonely, f, {.max_hops = 1}), f[0] * at::eye(3, at::kDouble));
  EXPECT_EQ(walking_mask(Graph::path(0), decay(2).to(at::kFloat))->matmul(at::empty({0, 4})).sizes(),
            at::IntArrayRef({0, 4}));
}

TEST(WalkingMask, DoesNotDependOnTheNumberOfThreads) {
  const Graph graph = Graph::grid({40, 41}).normalised();
  const at::Tensor f = at::pow(0.5, at::arange(6, at::kFloat)).requires_grad_();
  const MaskPtr mask = walking_mask(graph, f, {.max_hops = 5});
  const at::Tensor x = at::rand({graph.num_nodes(), 32}) + 0.1;
  const int before = at::get_num_threads();
  std::vector<at::Tensor> first;
  for (const int threads : {1, 2, 7}) {
    at::set_num_threads(threads);
    const at::Tensor q = x.clone().requires_grad_();
    const at::Tensor out = attention(q, q, q, mask);
    std::vector<at::Tensor> all = testing::gradients(out, at::ones_like(out), {q, f});
    all.push_back(out.detach());
    if (first.empty()) first = all;
    for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(at::equal(all[i], first[i])) << threads << " threads, " << i;
  }
  at::set_num_threads(before);
}

TEST(WalkingMask, NamesWhatItRefuses) {
  const Graph graph = small_graph();
  EXPECT_ERROR(walking_mask(graph, decay(4).to(at::kFloat)),
               "walking_mask: f must be Double as the graph's weights are");
  EXPECT_ERROR(walking_mask(graph, decay(4).reshape({1, 2, 2})), "walking_mask: f must be Float or Double, [K] or [H");
  EXPECT_ERROR(walking_mask(graph, decay(4), {.max_hops = 2}), "walking_mask: f must have at most max_hops + 1 = 3");
  EXPECT_ERROR(walking_mask(graph, decay(4), {.group_products = true}), "walking_mask: walks.group_products must be");
  EXPECT_ERROR(walking_mask(graph, decay(4), {.walkers = 0}), "walking_mask: ");
}

}  // namespace
}  // namespace topomask
