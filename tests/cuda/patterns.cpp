#include "cuda/on_cuda.h"
#include "sparse/product_estimate.h"
#include "sparse/sddmm.h"
#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask {
namespace {

using Patterns = testing::OnCuda;

void expect_same(const SparsePattern& actual, const SparsePattern& expected) {
  EXPECT_TRUE(actual.offsets().cpu().equal(expected.offsets()));
  EXPECT_TRUE(actual.columns().cpu().equal(expected.columns()));
}

TEST_F(Patterns, AreTransposedAsOnTheCpu) {
  for (const Graph& graph : {Graph::grid({7, 9}), Graph::star(40), Graph::erdos_renyi(101, 0.1, 3), Graph::path(0)}) {
    const PatternPtr moved = graph.pattern()->to(cuda_);
    const auto &here = graph.pattern()->transposed(), &there = moved->transposed();
    EXPECT_TRUE(there.offsets.cpu().equal(here.offsets));
    EXPECT_TRUE(there.columns.cpu().equal(here.columns));
    EXPECT_TRUE(there.index.cpu().equal(here.index));
  }
}

TEST_F(Patterns, OfProductsAreTheCpus) {
  // Rows that span few columns, many, and more than shared memory holds.
  for (const Graph& graph : {Graph::grid({19, 23}), Graph::erdos_renyi(500, 0.02, 1),
                             Graph::erdos_renyi(50000, 1e-4, 2), Graph::star(1000), Graph::path(0)}) {
    const PatternPtr here = graph.pattern(), there = here->to(cuda_);
    expect_same(*there->product(there), *here->product(here));
  }
}

TEST_F(Patterns, OfProductsAreEstimatedAsOnTheCpu) {
  const PatternPtr here = Graph::erdos_renyi(5000, 2e-3, 1).pattern(), there = here->to(cuda_);
  const ProductEstimate expected = estimate_product({here, here}), actual = estimate_product({there, there});
  EXPECT_EQ(actual.entries, expected.entries);
  EXPECT_EQ(actual.work, expected.work);
}

TEST_F(Patterns, OfGraphsTransformAsOnTheCpu) {
  const Graph here = Graph::erdos_renyi(60, 0.1, 3).to(at::kDouble), there = here.to(cuda_);
  const auto same = [](const Graph& actual, const Graph& expected) {
    EXPECT_TRUE(actual.device().is_cuda());
    expect_same(*actual.pattern(), *expected.pattern());
    EXPECT_TRUE(actual.weights().cpu().equal(expected.weights()));
  };
  EXPECT_EQ(there.num_edges(), here.num_edges());
  same(there.normalised(0.7), here.normalised(0.7));
  same(there.to(at::kFloat).normalised(0.7), here.to(at::kFloat).normalised(0.7));
  const at::Tensor order = reverse_cuthill_mckee(here);
  EXPECT_TRUE(reverse_cuthill_mckee(there).cpu().equal(order));
  same(permuted(there, order.to(cuda_)), permuted(here, order));
  same(induced_subgraph(there, order.slice(0, 0, 20).to(cuda_)), induced_subgraph(here, order.slice(0, 0, 20)));
  same(cartesian_product(there, there), cartesian_product(here, here));
  EXPECT_TRUE(connected_components(there).labels.cpu().equal(connected_components(here).labels));
  const std::vector<Graph> here_twice{here, here.normalised()}, there_twice{there, there.normalised()};
  same(GraphBatch(there_twice).graph(), GraphBatch(here_twice).graph());
  EXPECT_TRUE(GraphBatch(there_twice).membership().cpu().equal(GraphBatch(here_twice).membership()));
}

TEST_F(Patterns, MovedTwiceAreOne) {
  const PatternPtr pattern = Graph::grid({5, 6}).pattern();
  const PatternPtr there = pattern->to(cuda_);
  EXPECT_EQ(there, pattern->to(at::kCUDA));
  EXPECT_EQ(there->to(at::kCPU), pattern);
  EXPECT_EQ(there->to(cuda_), there);
}

/// Rows of visits name a column again and again: products and dots over such rows, longer than there are columns, both
/// ways.
TEST_F(Patterns, WithRepeatedColumnsHaveLongRowsToo) {
  constexpr int64_t kNodes = 12, kLong = 5000, kWidth = 3;
  const at::Tensor counts = at::full({kNodes}, 7, at::kLong);
  counts[4].fill_(kLong);
  const at::Tensor offsets = at::constant_pad_nd(counts.cumsum(0), {1, 0});
  const int64_t entries = offsets[-1].item<int64_t>();
  const at::Tensor columns = at::arange(entries, at::kLong).remainder(5).to(at::kInt);  // each of five, very often
  const at::Tensor values = testing::normal({1, entries}, 1), x = testing::normal({1, 1, kNodes, kWidth}, 2);
  const at::Tensor rows = at::repeat_interleave(counts), wide = columns.to(at::kLong);
  const at::Tensor dense =
      at::zeros({kNodes, kNodes}, at::kDouble).index_put_({rows, wide}, values[0], /*accumulate=*/true);
  const auto pattern = std::make_shared<SparsePattern>(kNodes, kNodes, offsets.to(cuda_), columns.to(cuda_));
  const SparseMatrix m{pattern, values[0].to(cuda_)};
  EXPECT_TRUE(testing::close(matmul(m, x.to(cuda_)).cpu(), at::matmul(dense, x), 1e-10));
  EXPECT_TRUE(testing::close(matmul_transposed(m, x.to(cuda_)).cpu(), at::matmul(dense.t(), x), 1e-10));
  const at::Tensor pairs = at::matmul(x[0][0], x[0][0].t());
  EXPECT_TRUE(testing::close(sddmm(x.to(cuda_), x.to(cuda_), *pattern, 1)[0].cpu(), pairs.index({rows, wide}), 1e-10));
}

TEST_F(Patterns, AndMasksElsewhereAreRefusedByName) {
  const MaskPtr mask = neighbours_mask(Graph::path(4));
  const at::Tensor x = at::ones({4, 2}, cuda_);
  EXPECT_ERROR(mask->matmul(x), "Mask::matmul: x must be on cpu as the mask is, got Float[4, 2] on cuda:0");
  EXPECT_ERROR(attention(x, x, x, mask), "attention: mask must be on cuda:0 as q is, got cpu");
}

}  // namespace
}  // namespace topomask
