#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/global_tokens.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

using testing::expect_mask_is;
using testing::normal;

at::Tensor adjacency_plus_identity(const Graph& graph) {
  const at::Tensor dense = graph.to(at::kDouble).matrix().dense();
  return ((dense != 0).to(at::kDouble) + at::eye(graph.num_nodes(), at::kDouble)).clamp_max(1);
}

TEST(NoneMask, IsAllOnes) {
  for (int64_t n : {1, 2, 7, 63}) expect_mask_is(none_mask(n), at::ones({n, n}, at::kDouble));
}

TEST(CausalMask, IsLowerTriangular) {
  for (int64_t n : {1, 2, 13, 64, 131}) expect_mask_is(causal_mask(n), at::ones({n, n}, at::kDouble).tril());
}

TEST(DenseMask, IsItsMatrixPerHead) {
  const at::Tensor shared = normal({7, 7}, 1).abs().requires_grad_();
  expect_mask_is(dense_mask(shared), shared);
  const at::Tensor per_head = normal({3, 5, 5}, 2).abs().requires_grad_();
  expect_mask_is(dense_mask(per_head), per_head);
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

TEST(GlobalTokens, FrameTheMaskWithOnes) {
  const Graph graph = Graph::grid({3, 4});
  const at::Tensor values = (normal({2, graph.num_entries()}, 5).abs() + 0.1).requires_grad_();
  const std::vector<MaskPtr> inner{none_mask(5), causal_mask(6),
                                   dense_mask(normal({2, 5, 5}, 6).abs().requires_grad_()),
                                   neighbours_mask(graph.to(at::kDouble)), sparse_mask({graph.pattern(), values})};
  for (const MaskPtr& mask : inner) {
    for (int64_t tokens : {1, 3}) {
      const at::Tensor reference = at::constant_pad_nd(mask->dense().to(at::kDouble), {tokens, 0, tokens, 0}, 1);
      expect_mask_is(with_global_tokens(mask, tokens), reference);
    }
  }
  EXPECT_EQ(with_global_tokens(inner[0], 0), inner[0]);
}

TEST(Masks, ConvertBetweenPrecisions) {
  const MaskPtr mask = with_global_tokens(neighbours_mask(Graph::path(5)), 1);
  EXPECT_EQ(mask->dtype(), at::kFloat);
  const MaskPtr wide = mask->to(at::kDouble);
  EXPECT_EQ(wide->dtype(), at::kDouble);
  EXPECT_TRUE(testing::close(wide->dense(), mask->dense(), 0));
}

TEST(Masks, AcceptNoNodes) {
  const at::Tensor x = at::zeros({2, 0, 3});
  for (const MaskPtr& mask : {none_mask(0), causal_mask(0), neighbours_mask(Graph::path(0))}) {
    EXPECT_EQ(mask->matmul(x).sizes(), x.sizes()) << mask->name();
    EXPECT_EQ(mask->dense().numel(), 0) << mask->name();
  }
}

TEST(Masks, SayWhatIsWrong) {
  EXPECT_ERROR(none_mask(-1), "none_mask: nodes must be in [0, 2^31-1], got -1");
  EXPECT_ERROR(causal_mask(-2), "causal_mask: nodes must be in [0, 2^31-1], got -2");
  EXPECT_ERROR(dense_mask(at::zeros({2, 3})),
               "dense_mask: matrix must be Float or Double, [N, N] or [H, N, N], got Float[2, 3]");
  EXPECT_ERROR(sparse_mask({nullptr, at::zeros({3})}), "sparse_mask: pattern must be given");
  const Graph graph = Graph::path(3);
  EXPECT_ERROR(sparse_mask({graph.pattern(), at::zeros({3})}), "values must be Float or Double, [entries = 4]");
  const auto wide = std::make_shared<SparsePattern>(1, 2, at::tensor({0, 1}, at::kLong), at::tensor({1}, at::kInt));
  EXPECT_ERROR(sparse_mask({wide, at::zeros({1})}), "sparse_mask: pattern must be square, got [1, 2]");
  EXPECT_ERROR(with_global_tokens(nullptr, 1), "with_global_tokens: mask must be given");
  EXPECT_ERROR(with_global_tokens(none_mask(3), -1), "with_global_tokens: tokens must be >= 0, got -1");
  const MaskPtr mask = neighbours_mask(graph);
  EXPECT_ERROR(mask->matmul(at::zeros({4, 2})), "Mask::matmul: x must be [..., N = 3, C], got Float[4, 2]");
  EXPECT_ERROR(mask->matmul(at::zeros({3})), "Mask::matmul: x must be [..., N = 3, C]");
  EXPECT_ERROR(mask->matmul(at::zeros({3, 2}, at::kDouble)),
               "Mask::matmul: x must be Float as the mask is, got Double[3, 2]");
  const MaskPtr heads = dense_mask(at::ones({2, 3, 3}));
  EXPECT_ERROR(heads->matmul(at::zeros({3, 3, 1})), "x must be [..., H = 2, N = 3, C] for a mask with 2 heads");
  EXPECT_ERROR(none_mask(3)->masked_product({}, {}, {}, false), "mask none has none of its own");
}

TEST(CausalMask, IsNotRoundedByLaterNodes) {
  // Nodes 64 … 127 are one chunk: what came before it must not be a difference of sums that have its last node in them.
  const at::Tensor ones = at::ones({128, 1}), v = at::ones({128, 1});
  v.select(0, 127).fill_(1e9);
  const at::Tensor out =
      attention(ones, ones, v, causal_mask(128), {.features = FeatureMap::identity(), .route = Route::operator_});
  EXPECT_TRUE(testing::close(out.narrow(0, 0, 127), at::ones({127, 1}), 1e-6));
}

}  // namespace
}  // namespace topomask
