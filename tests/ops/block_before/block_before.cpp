#include <ATen/ATen.h>

#include "ops/block_before/op.h"
#include "ops/call.h"
#include "support/compare.h"

// tests/python/package/test_rowwise.py compares values and gradients with the modules of torch.

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

using Parts = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Parts forward(const at::Tensor& x, const at::Tensor& norm_weight, const at::Tensor& norm_bias, const at::Tensor& w,
              const at::Tensor& b, bool low) {
  return ops::call<"block_before", Parts(const at::Tensor&, const at::Tensor&, const at::Tensor&, double,
                                         const at::Tensor&, const at::Tensor&, int64_t, double, bool)>(
      x, norm_weight, norm_bias, 1e-5, w, b, 2, 0.25, low);
}

/// The definition with operations of torch.
Parts expected(const at::Tensor& x, const at::Tensor& norm_weight, const at::Tensor& norm_bias, const at::Tensor& w,
               const at::Tensor& b) {
  const at::Tensor all = at::linear(at::layer_norm(x, {x.size(1)}, norm_weight, norm_bias, 1e-5), w, b);
  const at::Tensor parts = all.view({x.size(0), 3, 2, x.size(1) / 2}).permute({1, 2, 0, 3});
  return {at::relu(parts[0]) + 0.25, at::relu(parts[1]) + 0.25, parts[2]};
}

TEST(BlockBefore, IsItsDefinitionWithGradients) {
  const auto leaf = [](at::IntArrayRef shape) { return at::randn(shape, at::kDouble).requires_grad_(); };
  // More rows than a chunk has.
  const std::vector<at::Tensor> leaves{leaf({5000, 32}), leaf({32}), leaf({32}), leaf({96, 32}), leaf({96})};
  const auto [wide_q, wide_k, wide_v] = expected(leaves[0], leaves[1], leaves[2], leaves[3], leaves[4]);
  const at::Tensor cotangent = at::randn({6, 5000, 16}, at::kDouble);
  const std::vector<at::Tensor> want = testing::gradients(at::cat({wide_q, wide_k, wide_v}), cotangent, leaves);

  std::vector<at::Tensor> plain;
  for (const at::Tensor& tensor : leaves) plain.push_back(tensor.detach());
  const auto [q, k, v] = forward(plain[0], plain[1], plain[2], plain[3], plain[4], false);
  EXPECT_TRUE(testing::close(q, wide_q, 1e-12));
  EXPECT_TRUE(testing::close(k, wide_k, 1e-12));
  EXPECT_TRUE(testing::close(v, wide_v, 1e-12));
  const auto dq = cotangent.slice(0, 0, 2), dk = cotangent.slice(0, 2, 4), dv = cotangent.slice(0, 4, 6);
  const auto got =
      ops::call<"block_before_backward",
                std::vector<at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                        const at::Tensor&, const at::Tensor&, double, const at::Tensor&,
                                        const at::Tensor&, const at::Tensor&, double, bool)>(
          dq, dk, dv, plain[0], plain[1], plain[2], 1e-5, plain[3], q, k, 0.25, false);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(testing::close(got[i], want[i], 1e-11)) << i;
}

TEST(BlockBefore, InBFloat16StaysNearItsDefinition) {
  const at::Tensor x = at::randn({50, 32}), w = at::randn({96, 32}), b = at::randn({96}), scale = at::rand({32});
  const auto [q, k, v] = forward(x, scale, scale, w, b, true);
  const auto [wide_q, wide_k, wide_v] = expected(x, scale, scale, w, b);
  EXPECT_TRUE(testing::close(q, wide_q, 2e-2));
  EXPECT_TRUE(testing::close(k, wide_k, 2e-2));
  EXPECT_TRUE(testing::close(v, wide_v, 2e-2));
}

}  // namespace
}  // namespace topomask
