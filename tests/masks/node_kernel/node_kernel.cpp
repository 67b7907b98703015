#include "topomask/node_kernel.h"

#include "masks/empty_mask.h"
#include "masks/grf/grf_testing.h"
#include "topomask/attention.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

using testing::close;
using testing::expect_mask_is;
using testing::expect_matrix_is;

WalkTable walks_on(const Graph& graph, const WalkOptions& options = {.walkers = 6, .max_hops = 5, .seed = 3}) {
  return sample_walks(graph.to(at::kDouble), options);
}

at::Tensor number(double value) {
  return at::scalar_tensor(value, at::kDouble).requires_grad_();
}

/// F [N, N] or [H, N, N] by its definition.
at::Tensor frequencies(const WalkTable& walks, const at::Tensor& discount) {
  const at::Tensor hops = at::arange(walks.max_hops() + 1, at::kDouble);
  return testing::dense_features(walks, at::pow(discount.unsqueeze(-1), hops), true) * walks.walkers();
}

at::Tensor kernel(const WalkTable& walks, const at::Tensor& discount, int64_t alpha, double p) {
  at::Tensor f = frequencies(walks, discount);
  if (alpha == 1) f = f / f.pow(p).sum(-1, true).pow(1 / p);
  return at::matmul(f, f.mT());
}

at::Tensor ratio(const WalkTable& walks, const at::Tensor& discount) {
  const at::Tensor f = frequencies(walks, discount);
  return f / f.diagonal(0, -2, -1).unsqueeze(-1);
}

TEST(NodeKernel, IsItsFormulaForEveryNorm) {
  const WalkTable walks = walks_on(Graph::erdos_renyi(23, 0.12, 1));
  const at::Tensor discount = number(0.7);
  expect_mask_is(node_kernel_mask(walks, discount), kernel(walks, discount, 1, 2));
  expect_mask_is(node_kernel_mask(walks, discount, {.alpha = 0}), kernel(walks, discount, 0, 2));
  expect_matrix_is(node_kernel_mask(walks, discount, {.p = 1}), kernel(walks, discount, 1, 1));
  expect_matrix_is(node_kernel_mask(walks, discount, {.p = 3.5}), kernel(walks, discount, 1, 3.5));
  expect_matrix_is(node_kernel_mask(walks, discount, {.p = 30}), kernel(walks, discount, 1, 30));
}

/// Frequencies to the power of 128 are beyond float32.
TEST(NodeKernel, TakesNormsCloseToTheLargestValue) {
  const WalkTable walks = walks_on(Graph::erdos_renyi(23, 0.12, 1));
  const at::Tensor expected = kernel(walks, number(0.7).detach(), 1, 128);
  const at::Tensor discount = number(0.7).detach().to(at::kFloat);
  EXPECT_TRUE(
      close(node_kernel_mask(walks.to(at::kFloat), discount, {.p = 128})->dense().to(at::kDouble), expected, 1e-4));
}

TEST(NodeKernel, IsTheIdentityWithoutWalkingAndHasASlopeThere) {
  const WalkTable walks = walks_on(Graph::cycle(7));
  const at::Tensor discount = number(0);
  EXPECT_TRUE(close(node_kernel_mask(walks, discount)->dense(), at::eye(7, at::kDouble), 1e-14));
  expect_matrix_is(node_kernel_mask(walks, discount), kernel(walks, discount, 1, 2));
  expect_matrix_is(node_frequency_mask(walks, discount), ratio(walks, discount));
}

TEST(NodeKernel, TakesADiscountPerHead) {
  const WalkTable walks = walks_on(testing::digraph());
  const at::Tensor discounts = at::tensor({0.5, 1.3}, at::kDouble).requires_grad_();
  expect_mask_is(node_kernel_mask(walks, discounts), kernel(walks, discounts, 1, 2));
  expect_mask_is(node_frequency_mask(walks, discounts), ratio(walks, discounts));
  EXPECT_EQ(walk_frequencies(walks, discounts).dim(), 2);
  const at::Tensor one = at::tensor({0.6}, at::kDouble).requires_grad_();
  EXPECT_EQ(walk_frequencies(walks, one).dim(), 2);
  expect_matrix_is(node_kernel_mask(walks, one), kernel(walks, one[0], 1, 2));
  expect_matrix_is(node_frequency_mask(walks, one), ratio(walks, one[0]));
}

TEST(NodeKernel, FrequencyRatioIsItsFormula) {
  for (const int64_t side : {1, 5}) {
    const WalkTable walks = walks_on(Graph::grid({side, side}), {.walkers = 3, .fixed_hops = 4});
    const at::Tensor discount = number(0.8);
    expect_mask_is(node_frequency_mask(walks, discount), ratio(walks, discount));
  }
}

TEST(NodeKernel, CountsVisitsWhereNoDiscountIsGiven) {
  const Graph graph = Graph::path(9);
  const WalkTable walks = sample_walks(graph, {.walkers = 50, .fixed_hops = 3});
  const MaskPtr mask = node_kernel_mask(walks);
  EXPECT_EQ(mask->dtype(), at::kFloat);
  const at::Tensor m = mask->dense();
  EXPECT_TRUE(close(m.diagonal(), at::ones({9}), 1e-6)) << "the cosine of a node with itself";
  EXPECT_EQ(m[0][7].item<float>(), 0) << "walks of three hops meet up to six hops away";
  const at::Tensor f = SparseMatrix{walks.pattern(), walk_frequencies(walks)}.dense();
  EXPECT_TRUE(close(f.sum(-1), at::full({9}, 200.0), 1e-6)) << "50 walks of four nodes";
  EXPECT_TRUE(close(mask->to(at::kDouble)->dense(), m, 1e-6));
  EXPECT_TRUE(close(node_frequency_mask(walks)->to(at::kDouble)->dense(), f / f.diagonal().unsqueeze(-1), 1e-6));
  EXPECT_EQ(mask->to(at::kFloat), mask);
}

TEST(NodeKernel, MultiplicativeSoftmaxLeavesOutWhatWalksDoNotShare) {
  const WalkTable walks = walks_on(Graph::path(31), {.walkers = 50, .fixed_hops = 3});
  const MaskPtr mask = node_kernel_mask(walks);
  const at::Tensor q = testing::normal({2, 31, 5}, 1), k = testing::normal({2, 31, 5}, 2);
  const at::Tensor v = testing::normal({2, 31, 4}, 3);
  const at::Tensor m = mask->dense();
  ASSERT_TRUE((m == 0).any().item<bool>());
  const at::Tensor expected = at::matmul(at::softmax(at::matmul(q, k.mT()) / std::sqrt(5.0) + m.log(), -1), v);
  EXPECT_TRUE(close(softmax_attention(q, k, v, mask, {.route = Route::sparse}), expected, 1e-10));
  EXPECT_TRUE(close(softmax_attention(q, k, v, mask), expected, 1e-10));
}

TEST(NodeKernel, AnEmptyGraphAndASingleNodeWork) {
  const WalkTable none = walks_on(Graph::path(0)), single = walks_on(Graph::path(1));
  const at::Tensor discount = number(0.7);
  testing::expect_empty(node_kernel_mask(none, discount));
  testing::expect_empty(node_frequency_mask(none, discount));
  expect_mask_is(node_kernel_mask(single, discount), kernel(single, discount, 1, 2));
  expect_mask_is(node_frequency_mask(single, discount), ratio(single, discount));
}

TEST(NodeKernel, TellsThePlannerItsCounts) {
  const WalkTable walks = walks_on(Graph::grid({9, 9}));
  const auto entries = static_cast<double>(walks.pattern()->entries());
  const MaskCounts kernel = node_kernel_mask(walks, number(0.5))->counts();
  EXPECT_EQ(kernel.operator_work, 2 * entries);
  EXPECT_EQ(kernel.factor_entries, 2 * entries);
  EXPECT_GT(kernel.values_work, 0);
  EXPECT_EQ(node_kernel_mask(walks)->counts().values_work, 0) << "constant values are kept";
  EXPECT_EQ(node_frequency_mask(walks)->counts().sparse_entries, entries);
}

TEST(NodeKernel, FollowsALearnedDiscountAndRefusesABadOne) {
  const WalkTable walks = walks_on(Graph::cycle(8));
  const at::Tensor discount = at::scalar_tensor(0.7, at::kDouble);
  const MaskPtr mask = node_kernel_mask(walks, discount), ratios = node_frequency_mask(walks, discount);
  mask->dense();
  discount.fill_(0.2);
  EXPECT_TRUE(close(mask->dense(), kernel(walks, discount, 1, 2), 1e-12));
  EXPECT_TRUE(close(ratios->dense(), ratio(walks, discount), 1e-12));
  discount.fill_(-0.1);
  EXPECT_ERROR(mask->dense(), "node_kernel_mask: discount must be finite and >= 0, got -0.1");
  EXPECT_ERROR(ratios->dense(), "node_frequency_mask: discount must be finite and >= 0, got -0.1");
}

TEST(NodeKernel, RefusesBadArguments) {
  const WalkTable walks = walks_on(Graph::cycle(8), {.walkers = 2, .exact_hops = 1});
  const at::Tensor good = number(0.5);
  EXPECT_ERROR(node_kernel_mask(walks, number(-0.5)), "node_kernel_mask: discount must be finite and >= 0, got -0.5");
  EXPECT_ERROR(node_kernel_mask(walks, number(std::nan(""))), "discount must be finite and >= 0, got nan");
  EXPECT_ERROR(node_frequency_mask(walks, at::tensor({1.0, INFINITY}, at::kDouble)),
               "node_frequency_mask: discount must be finite and >= 0, got inf");
  EXPECT_ERROR(node_kernel_mask(walks, at::ones({2, 2}, at::kDouble)),
               "discount must be Double as the loads of the walks are, [] or [H] on cpu, got Double[2, 2]");
  EXPECT_ERROR(node_kernel_mask(walks, at::ones({})), "discount must be Double");
  EXPECT_ERROR(walk_frequencies(walks, at::ones({0}, at::kDouble)), "walk_frequencies: discount must be Double");
  EXPECT_ERROR(node_kernel_mask(walks, good, {.alpha = 2}), "node_kernel_mask: alpha must be 0 or 1, got 2");
  EXPECT_ERROR(node_kernel_mask(walks, good, {.p = 0.5}), "node_kernel_mask: p must be finite and >= 1, got 0.5");
  EXPECT_ERROR(node_kernel_mask(walks, good, {.p = INFINITY}), "p must be finite and >= 1, got inf");
  EXPECT_ERROR(node_kernel_mask(with_exact_head(walks, Graph::cycle(8).to(at::kDouble)), good),
               "node_kernel_mask: walks must count their walkers at every node, got a table with an exact head");
}

}  // namespace
}  // namespace topomask
