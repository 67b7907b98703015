#include "core/ordered_sums.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;
using testing::normal;

TEST(OrderedSums, AreSums) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{
           {1, 1, 1, 1}, {2, 3, 63, 5}, {3, 2, 4099, 7}, {2, 2, 0, 3}, {0, 2, 3, 1}, {2, 1, 3, 0}}) {
    const at::Tensor a = normal(shape, 1), b = normal(shape, 2);
    EXPECT_TRUE(close(head_dots(a, b), (a * b).sum(at::IntArrayRef{0, 2, 3}), 1e-12)) << shape;
    EXPECT_TRUE(close(node_dots(a, b), (a * b).sum(at::IntArrayRef{0, 3}), 1e-12)) << shape;
    EXPECT_TRUE(close(column_sums(a, b), (a * b).sum(-2, true), 1e-12)) << shape;
    EXPECT_TRUE(close(column_sums(a.mT()), a.mT().sum(-2, true), 1e-12)) << shape;
    EXPECT_TRUE(close(first_sums(a), a.sum(0), 1e-12)) << shape;
    EXPECT_TRUE(close(outer_sums(a, b), at::matmul(a, b.mT()).sum(0), 1e-12)) << shape;
  }
}

struct Operands {
  std::vector<int64_t> a, b;
};

/// One block and several, of rows, columns and the inner dimension; slices that are broadcast; empty ones.
std::vector<Operands> operands() {
  return {{{3, 4}, {4, 5}},
          {{2, 3, 7, 4}, {2, 3, 4, 5}},
          {{300, 16}, {16, 9000}},
          {{5, 20000}, {20000, 3}},
          {{2, 5, 9000}, {2, 9000, 3}},
          {{3, 70, 70}, {2, 3, 70, 4}},
          {{2, 1, 70, 70}, {3, 70, 4}},
          {{40, 40}, {600, 40, 3}},
          {{0, 3}, {3, 2}},
          {{3, 0}, {0, 2}},
          {{2, 3, 4}, {4, 0}}};
}

TEST(OrderedMatmul, IsTheProductWithItsGradients) {
  for (const Operands& shapes : operands()) {
    const at::Tensor a = normal(shapes.a, 1).requires_grad_(), b = normal(shapes.b, 2).requires_grad_();
    const at::Tensor expected = at::matmul(a, b), product = ordered_matmul(a, b), g = normal(expected.sizes(), 3);
    EXPECT_TRUE(close(product, expected, 1e-12)) << shapes.a << " " << shapes.b;
    const auto want = gradients(expected, g, {a, b}), got = gradients(product, g, {a, b});
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(close(got[i], want[i], 1e-12)) << shapes.a << " " << shapes.b;
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(ordered_matmul(a, b).equal(product));
    EXPECT_TRUE(close(ordered_matmul(b.mT(), a.mT()), expected.mT(), 1e-12)) << "transposed views";
  }
}

TEST(OrderedMatmul, InBlocksIsTheProductToo) {
  for (const int64_t block : {1, 7, 16, 50, 64}) {
    const at::Tensor a = normal({2, 3, 5, 50}, 1).requires_grad_(), b = normal({3, 50, 4}, 2).requires_grad_();
    const at::Tensor expected = at::matmul(a, b), product = matmul_in_blocks(a, b, block),
                     g = normal(expected.sizes(), 3);
    EXPECT_TRUE(close(product, expected, 1e-13)) << block;
    const auto wanted = torch::autograd::grad({expected}, {a, b}, {g}),
               got = torch::autograd::grad({product}, {a, b}, {g});
    EXPECT_TRUE(close(got[0], wanted[0], 1e-13) && close(got[1], wanted[1], 1e-13)) << block;
  }
  const at::Tensor ones = at::ones({1, 3000}, at::kBFloat16);
  EXPECT_EQ(matmul_in_blocks(ones, ones.mT(), 10).item<float>(), 3008) << "parts are added in float32";
}

TEST(OrderedMatmul, CanBeDifferentiatedTwice) {
  const at::Tensor a = normal({3, 4}, 1).requires_grad_(), b = normal({2, 4, 5}, 2).requires_grad_();
  const auto curvature = [&](const at::Tensor& product) {
    const auto first = torch::autograd::grad({product.square().sum()}, {a}, {}, true, /*create_graph=*/true);
    return torch::autograd::grad({first[0].square().sum()}, {b})[0];
  };
  EXPECT_TRUE(close(curvature(ordered_matmul(a, b)), curvature(at::matmul(a, b)), 1e-12));
}

TEST(OrderedMul, SumsOverWhatIsBroadcast) {
  const at::Tensor a = normal({4, 2, 5, 6}, 1).requires_grad_();
  for (const auto& shape : std::vector<std::vector<int64_t>>{{5, 6}, {2, 5, 6}, {4, 2, 5, 6}, {1, 2, 1, 6}}) {
    const at::Tensor b = normal(shape, 2).requires_grad_(), g = normal(a.sizes(), 3);
    const auto want = gradients(a * b, g, {a, b}), got = gradients(ordered_mul(a, b), g, {a, b});
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(close(got[i], want[i], 1e-12));
  }
}

TEST(OrderedSums, AreTheSameForAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  std::vector<at::Tensor> expected;
  for (const int threads : {1, 2, 7}) {
    at::set_num_threads(threads);
    const at::Tensor x = normal({1, 1, 100000, 1}, 1).to(at::kFloat), y = normal({4, 2, 9000, 3}, 2);
    std::vector<at::Tensor> results{head_dots(x, x), column_sums(x), column_sums(y, y), node_dots(y, y), first_sums(y)};
    for (const Operands& shapes : operands()) {
      results.push_back(ordered_matmul(normal(shapes.a, 1).to(at::kFloat), normal(shapes.b, 2).to(at::kFloat)));
    }
    if (expected.empty()) expected = results;
    for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(results[i].equal(expected[i])) << i << ", " << threads;
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace topomask
