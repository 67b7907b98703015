#include <ATen/ATen.h>

#include "ops/block_before/op.h"
#include "support/compare.h"

// tests/python/package/test_rowwise.py compares values and gradients with the modules.

namespace topomask {
namespace {

TEST(BlockBefore, ChecksEveryTensorThatItReads) {
  const at::Tensor x = at::rand({5, 32}), w = at::rand({96, 32}), b = at::rand({96}), scale = at::rand({32});
  const auto check = [&](const at::Tensor& norm_weight, const at::Tensor& norm_bias, const at::Tensor& weight,
                         const at::Tensor& bias) {
    ops::block_before::check(x, norm_weight, norm_bias, weight, bias, 2);
  };
  EXPECT_NO_THROW(check(scale, scale, w, b));
  EXPECT_ERROR(check(scale.slice(0, 1), scale, w, b), "block_before: norm_weight must be Float [32], got Float[31]");
  EXPECT_ERROR(check(scale, scale.to(at::kDouble), w, b), "block_before: norm_bias must be Float [32], got Double[32]");
  EXPECT_ERROR(check(scale, scale, w.t(), b), "block_before: w must be Float [96, 32]");
  EXPECT_ERROR(check(scale, scale, w, scale), "block_before: b must be Float [96]");
  EXPECT_ERROR(ops::block_before::check(x, scale, scale, w, b, 4),
               "block_before: the width of x must be a multiple of 16 for each of 4 heads");
}

TEST(BlockBefore, ChecksEveryTensorOfTheBackwardPass) {
  const at::Tensor x = at::rand({5, 32}), w = at::rand({96, 32}), scale = at::rand({32}), part = at::rand({2, 5, 16});
  const auto check = [&](const at::Tensor& dv, const at::Tensor& norm_weight, const at::Tensor& q) {
    ops::block_before::check_backward(part, part, dv, x, norm_weight, scale, w, q, part);
  };
  EXPECT_NO_THROW(check(part, scale, part));
  EXPECT_ERROR(check(part.mT(), scale, part), "block_before_backward: dv must be Float [2, 5, 16]");
  EXPECT_ERROR(check(part, scale.slice(0, 1), part), "block_before_backward: norm_weight must be Float [32]");
  EXPECT_ERROR(check(part, scale, part[0]), "block_before_backward: q must be [heads, N, d], got Float[5, 16]");
}

}  // namespace
}  // namespace topomask
