#include "cuda/on_cuda.h"
#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/walking_mask.h"

namespace topomask {
namespace {

using Walks = testing::OnCuda;

Graph weighted_digraph() {
  const at::Tensor source = at::arange(0, 400, at::kLong) % 97, target = (source * 31 + at::arange(0, 400) * 7) % 101;
  const at::Tensor weights = at::linspace(-1, 2, 400) + 0.003;
  return Graph::from_edges(103, source, target, weights, {.directed = true});
}

std::vector<Graph> graphs() {
  return {Graph::grid({17, 13}).normalised(0.9), Graph::star(63).normalised(), weighted_digraph(), Graph::path(1),
          Graph::path(0)};
}

std::vector<WalkOptions> samplers() {
  std::vector<WalkOptions> all;
  for (const Coupling coupling :
       {Coupling::independent, Coupling::antithetic, Coupling::repelling, Coupling::antithetic_repelling}) {
    all.push_back({.walkers = 5, .halting_probability = 0.3, .coupling = coupling, .seed = 11});
    all.push_back({.walkers = 40, .fixed_hops = 3, .coupling = coupling, .seed = uint64_t{1} << 40, .first_walker = 6});
  }
  all.push_back({.walkers = 8, .max_hops = 20, .coupling = Coupling::repelling, .ensemble = 4, .seed = 3});
  all.push_back({.walkers = 4, .halting_probability = 0.1, .proposal = Proposal::weights, .seed = 5});
  return all;
}

void expect_same_table(const WalkTable& actual, const WalkTable& expected) {
  const WalkTable here = actual.to(at::kCPU);
  EXPECT_TRUE(here.offsets().equal(expected.offsets()));
  EXPECT_TRUE(here.columns().equal(expected.columns()));
  EXPECT_TRUE(here.hops().equal(expected.hops()));
  EXPECT_TRUE(here.counts().equal(expected.counts()));
  EXPECT_TRUE(here.feature_offsets().equal(expected.feature_offsets()));
  EXPECT_TRUE(here.pattern()->offsets().equal(expected.pattern()->offsets()));
  EXPECT_TRUE(here.pattern()->columns().equal(expected.pattern()->columns()));
  EXPECT_TRUE(at::allclose(here.loads(), expected.loads(), 1e-5, 1e-12));
  ASSERT_EQ(here.has_group_products(), expected.has_group_products());
  if (!expected.has_group_products()) return;
  EXPECT_TRUE(here.product_offsets().equal(expected.product_offsets()));
  EXPECT_TRUE(here.product_hops().equal(expected.product_hops()));
  EXPECT_TRUE(at::allclose(here.product_values(), expected.product_values(), 1e-4, 1e-12));
}

TEST_F(Walks, AreTheCpusBitForBit) {
  for (const Graph& graph : graphs()) {
    for (const WalkOptions& options : samplers()) {
      if (options.proposal == Proposal::weights && graph.num_nodes() < 2) continue;
      SCOPED_TRACE(c10::str(graph.num_nodes(), " nodes, coupling ", static_cast<int>(options.coupling)));
      expect_same_table(sample_walks(graph.to(cuda_), options), sample_walks(graph, options));
      expect_same_table(sample_walks(graph.to(at::TensorOptions(cuda_).dtype(at::kDouble)), options),
                        sample_walks(graph.to(at::kDouble), options));
    }
  }
}

TEST_F(Walks, OfManyVisitsAreTheSameToo) {
  const Graph graph = Graph::star(300).normalised();
  const WalkOptions options{.walkers = 1000, .halting_probability = 0.05, .max_hops = 60, .seed = 2};
  expect_same_table(sample_walks(graph.to(cuda_), options), sample_walks(graph, options));
}

TEST_F(Walks, HaveTheirGroupProducts) {
  for (const Graph& graph : graphs()) {
    for (WalkOptions options : samplers()) {
      if (options.proposal == Proposal::weights && graph.num_nodes() < 2) continue;
      SCOPED_TRACE(c10::str(graph.num_nodes(), " nodes, coupling ", static_cast<int>(options.coupling)));
      options.group_products = true;
      expect_same_table(sample_walks(graph.to(at::TensorOptions(cuda_).dtype(at::kDouble)), options),
                        sample_walks(graph.to(at::kDouble), options));
    }
  }
  // More visits than are done at once.
  const Graph graph = Graph::erdos_renyi(30000, 2e-4, 5).normalised();
  const WalkOptions options{.walkers = 40, .halting_probability = 0.2, .max_hops = 30, .group_products = true};
  expect_same_table(sample_walks(graph.to(cuda_), options), sample_walks(graph, options));
}

TEST_F(Walks, InEnsemblesTooLargeAreRefused) {
  EXPECT_ERROR(sample_walks(Graph::path(4).to(cuda_), {.walkers = 9000, .coupling = Coupling::repelling}),
               "ensemble must be at most");
}

TEST_F(Walks, MovedTablesGiveTheSameMaskAndGradient) {
  const Graph graph = Graph::grid({9, 11}).normalised(0.9).to(at::kDouble);
  const WalkTable walks = sample_walks(graph, {.walkers = 6, .halting_probability = 0.3, .seed = 4});
  const at::Tensor f = at::linspace(1, 0.2, 7, at::kDouble).requires_grad_();
  const at::Tensor here = grf_mask(walks, f)->dense(), there = grf_mask(walks.to(cuda_), f.to(cuda_))->dense();
  EXPECT_TRUE(at::allclose(there.cpu(), here, 1e-12, 1e-14));
  const at::Tensor seed = at::rand_like(here);
  const at::Tensor grad_here = torch::autograd::grad({here}, {f}, {seed})[0];
  const at::Tensor grad_there = torch::autograd::grad({there}, {f}, {seed.to(cuda_)})[0];
  EXPECT_TRUE(at::allclose(grad_there, grad_here, 1e-10, 1e-12));
}

/// The walkers of a star meet in its hub, many times each: its row of the transpose has more entries than the graph has
/// nodes, and is a long one though no row could be with distinct columns.
TEST_F(Walks, ThatMeetInAHubAreAllCounted) {
  const Graph graph = Graph::star(126).normalised().to(at::kDouble);
  const WalkOptions options{.walkers = 40, .halting_probability = 0.2, .max_hops = 20, .seed = 8};
  const at::Tensor f = at::linspace(1, 0.3, 12, at::kDouble);
  const MaskPtr here = walking_mask(graph, f, options), there = walking_mask(graph.to(cuda_), f.to(cuda_), options);
  const at::Tensor x = testing::normal({2, 1, graph.num_nodes(), 5}, 3), y = x.to(cuda_);
  EXPECT_TRUE(testing::close(there->matmul(y).cpu(), here->matmul(x), 1e-10));
  EXPECT_TRUE(testing::close(there->matmul_transposed(y).cpu(), here->matmul_transposed(x), 1e-10));
}

}  // namespace
}  // namespace topomask
