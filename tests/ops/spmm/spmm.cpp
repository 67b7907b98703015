#include "ops/spmm/op.h"
#include "support/compare.h"
#include "support/devices.h"
#include "support/sparse_reference.h"

// M·x, Mᵀ·x and the products at the entries of M, against the dense matrix. Dtypes, strides and threads:
// sparse/matrix.cpp.

namespace topomask {
namespace {

using at::Tensor;
using testing::close;
using testing::dense_matrix;
using testing::gradients;
using testing::random_pattern;
using testing::random_tensor;

TEST(Spmm, IsTheDenseProductWithGradients) {
  for (const at::Device device : testing::devices()) {
    for (const auto& [rows, cols, heads] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
             {1, 1, 1}, {17, 31, 1}, {63, 40, 3}, {0, 5, 1}, {5, 0, 1}}) {
      SCOPED_TRACE(c10::str(rows, " x ", cols, " on ", device));
      const PatternPtr here = random_pattern(rows, cols, 0.2, 1), there = here->to(device);
      const Tensor values = random_tensor({heads, here->entries()}, 2).requires_grad_();
      for (const bool transposed : {false, true}) {
        const Tensor x = random_tensor({2, 3, transposed ? rows : cols, 5}, 3).requires_grad_();
        const Tensor matrix = dense_matrix(here, values);
        const Tensor want = at::matmul(transposed ? matrix.mT() : matrix, x), slope = random_tensor(want.sizes(), 4);
        const auto multiply = transposed ? ops::spmm::multiply_transposed : ops::spmm::multiply;
        const Tensor got = multiply(values.to(device), x.to(device), there->tensors());
        EXPECT_TRUE(close(got.cpu(), want, 1e-13));
        const auto actual = gradients(got, slope.to(device), {values, x});
        const auto expected = gradients(want, slope, {values, x});
        EXPECT_TRUE(close(actual[0], expected[0], 1e-13));
        EXPECT_TRUE(close(actual[1], expected[1], 1e-13));
      }
    }
  }
}

TEST(Sddmm, IsTheDenseProductAtTheEntries) {
  for (const at::Device device : testing::devices()) {
    const PatternPtr here = random_pattern(33, 21, 0.3, 1);
    const Tensor a = random_tensor({2, 3, 33, 7}, 2), b = random_tensor({2, 3, 21, 7}, 3);
    const Tensor rows = at::repeat_interleave(at::arange(33), here->offsets().diff());
    const Tensor all = at::matmul(a, b.mT()).sum(0).flatten(1);  // [H, rows·cols]
    const Tensor per_head = all.index_select(1, rows * 21 + here->columns().to(at::kLong));
    const auto there = here->to(device)->tensors();
    EXPECT_TRUE(close(ops::spmm::sddmm(a.to(device), b.to(device), there, 3).cpu(), per_head, 1e-13));
    EXPECT_TRUE(close(ops::spmm::sddmm(a.to(device), b.to(device), there, 1).cpu(), per_head.sum(0, true), 1e-13));
  }
}

TEST(Spmm, SaysWhatIsWrong) {
  const PatternPtr pattern = random_pattern(4, 6, 0.5, 1);
  const Tensor values = at::ones({1, pattern->entries()});
  EXPECT_ERROR(ops::spmm::multiply(values, at::ones({6, 2}), pattern->tensors()),
               "spmm: x must be [B, H, 6, C], got Float[6, 2] on cpu");
  EXPECT_ERROR(ops::spmm::multiply(values.narrow(1, 1, 2), at::ones({1, 1, 6, 2}), pattern->tensors()),
               "spmm: values must be");
}

}  // namespace
}  // namespace topomask
