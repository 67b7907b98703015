#include "ops/sparse_product/op.h"
#include "support/compare.h"
#include "support/devices.h"
#include "support/sparse_reference.h"

// A·Bᵀ at the entries of a pattern, against the dense product. Masks and estimates that use it: sparse/product.cpp.

namespace topomask {
namespace {

using at::Tensor;
using testing::close;
using testing::gradients;
using testing::random_pattern;
using testing::random_tensor;

/// The entries of matrices [H, rows, cols] at a pattern.
Tensor entries_of(const Tensor& matrices, const PatternPtr& pattern) {
  const Tensor rows = at::repeat_interleave(at::arange(pattern->rows()), pattern->offsets().diff());
  return matrices.flatten(1).index_select(1, rows * pattern->cols() + pattern->columns().to(at::kLong));
}

/// Takes some entries of the product, and places where it is zero.
TEST(SparseProductOp, IsTheDenseProductWithGradients) {
  for (const at::Device device : testing::devices()) {
    for (const int64_t heads : {1, 3}) {
      SCOPED_TRACE(c10::str(heads, " heads on ", device));
      const PatternPtr a = random_pattern(30, 50, 0.1, 1), b = random_pattern(44, 50, 0.1, 2),
                       out = random_pattern(30, 44, 0.4, 3);
      const Tensor x = random_tensor({heads, a->entries()}, 4).requires_grad_();
      const Tensor y = random_tensor({heads, b->entries()}, 5).requires_grad_();
      const Tensor want = entries_of(at::matmul(testing::dense_matrix(a, x), testing::dense_matrix(b, y).mT()), out);
      const Tensor slope = random_tensor(want.sizes(), 6);
      const Tensor got = ops::sparse_product::multiply(x.to(device), y.to(device), a->to(device)->tensors(),
                                                       b->to(device)->tensors(), out->to(device)->tensors());
      EXPECT_TRUE(close(got.cpu(), want, 1e-13));
      const auto actual = gradients(got, slope.to(device), {x, y}), expected = gradients(want, slope, {x, y});
      EXPECT_TRUE(close(actual[0], expected[0], 1e-13));
      EXPECT_TRUE(close(actual[1], expected[1], 1e-13));
    }
  }
}

TEST(SparseProductOp, OfAMatrixWithItselfIsTheDenseProductWithItsGradient) {
  for (const at::Device device : testing::devices()) {
    const PatternPtr a = random_pattern(40, 25, 0.1, 1), out = a->product(a);
    const Tensor x = random_tensor({2, a->entries()}, 2).requires_grad_();
    const Tensor matrix = testing::dense_matrix(a, x), want = entries_of(at::matmul(matrix, matrix.mT()), out);
    const Tensor slope = random_tensor(want.sizes(), 3);
    const Tensor got = ops::sparse_product::gram(x.to(device), a->to(device)->tensors(), out->to(device)->tensors());
    EXPECT_TRUE(close(got.cpu(), want, 1e-13));
    EXPECT_TRUE(close(gradients(got, slope.to(device), {x})[0], gradients(want, slope, {x})[0], 1e-13));
  }
}

}  // namespace
}  // namespace topomask
