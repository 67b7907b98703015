#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

using testing::expect_mask_is;
using testing::normal;

at::Tensor adjacency_plus_identity(const Graph& graph) {
  const at::Tensor dense = graph.to(at::kDouble).matrix().dense();
  return ((dense != 0).to(at::kDouble) + at::eye(graph.num_nodes(), at::kDouble)).clamp_max(1);
}

TEST(NeighboursMask, IsAdjacencyPlusIdentity) {
  for (const Graph& graph : {Graph::path(1), Graph::path(7), Graph::grid({3, 5}), Graph::star(11), Graph::path(0)}) {
    if (graph.num_nodes() == 0) continue;
    expect_mask_is(neighbours_mask(graph.to(at::kDouble)), adjacency_plus_identity(graph));
  }
}

TEST(NeighboursMask, CountsASelfLoopOnce) {
  const at::Tensor source = at::tensor({0, 1, 2}, at::kLong), target = at::tensor({0, 2, 2}, at::kLong);
  const Graph graph = Graph::from_edges(3, source, target).to(at::kDouble);
  expect_mask_is(neighbours_mask(graph), adjacency_plus_identity(graph));
}

TEST(SparseMask, LearnsItsValuesPerHead) {
  const Graph graph = Graph::erdos_renyi(17, 0.3, 5);
  const at::Tensor values = (normal({3, graph.num_entries()}, 3).abs() + 0.1).requires_grad_();
  const MaskPtr mask = sparse_mask({graph.pattern(), values});
  const at::Tensor dense = SparseMatrix{graph.pattern(), values}.dense();
  EXPECT_EQ(dense.sizes(), (std::vector<int64_t>{3, 17, 17}));
  expect_mask_is(mask, dense);
}

TEST(SparseMask, KeepsTheSignOfSmallDenominators) {
  const Graph graph = Graph::erdos_renyi(23, 0.25, 6);
  const at::Tensor values = normal({graph.num_entries()}, 4).requires_grad_();
  expect_mask_is(sparse_mask({graph.pattern(), values}), SparseMatrix{graph.pattern(), values}.dense(), 1e-8);
}

}  // namespace
}  // namespace topomask
