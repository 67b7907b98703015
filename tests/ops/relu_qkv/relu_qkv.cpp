#include <ATen/ATen.h>

#include "ops/relu_qkv/op.h"
#include "support/compare.h"
#include "support/devices.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;

/// The definition, by torch's operations.
std::vector<at::Tensor> parts_by_definition(const at::Tensor& qkv, double offset = 0) {
  std::vector<at::Tensor> parts = qkv.unbind(2);
  for (at::Tensor& part : parts) part = part.transpose(1, 2);
  return {parts[0].relu() + offset, parts[1].relu() + offset, parts[2]};
}

TEST(ReluQkv, IsTheDefinitionWithGradients) {
  for (const at::Device device : testing::devices()) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const int64_t width : {8, 24, 64}) {
        at::manual_seed(3);
        const at::Tensor qkv = at::randn({4, 13, 3, 3, width}, at::kDouble).to(device, type).requires_grad_();
        qkv.detach()[1][2].fill_(0);  // its gradient is torch's, none
        const ops::relu_qkv::Parts parts = ops::relu_qkv::split(qkv, width == 8 ? 0 : 0.07);
        const auto expected = parts_by_definition(qkv, width == 8 ? 0 : 0.07);
        EXPECT_TRUE(parts.q.equal(expected[0]) && parts.k.equal(expected[1]) && parts.v.equal(expected[2]));
        EXPECT_TRUE(parts.v.is_alias_of(qkv));
        // Gradients with heads before nodes in memory, after them, and as every second row of a larger tensor.
        const auto cotangent = [&] { return at::randn({4, 3, 13, width}, qkv.options().requires_grad(false)); };
        const at::Tensor q = cotangent(), k = cotangent().transpose(1, 2).contiguous().transpose(1, 2),
                         v = at::stack({cotangent(), cotangent()}, 3).select(3, 1);
        const auto together = [&](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
          return torch::autograd::grad({a, b, c}, {qkv}, {q, k, v})[0];
        };
        const at::Tensor actual = together(parts.q, parts.k, parts.v);
        EXPECT_TRUE(actual.equal(together(expected[0], expected[1], expected[2]))) << device << ' ' << type << width;
      }
    }
  }
}

TEST(ReluQkv, NeedsNoGradientOfEveryPart) {
  for (const at::Device device : testing::devices()) {
    const at::Tensor qkv = at::randn({2, 5, 3, 1, 8}, device).requires_grad_();
    const auto sum = [&](const at::Tensor& k) { return gradients(k, at::ones_like(k), {qkv})[0]; };
    EXPECT_TRUE(sum(ops::relu_qkv::split(qkv, 0).k).equal(sum(parts_by_definition(qkv)[1])));
  }
}

/// A dtype without a kernel is refused by name, not by an assertion.
TEST(ReluQkv, SupportsTheDtypesOfItsKernels) {
  for (const at::Device device : testing::devices()) {
    const at::Tensor qkv = at::zeros({1, 2, 3, 1, 8}, device), narrow = qkv.to(at::kFloat8_e5m2);
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
      EXPECT_EQ(ops::relu_qkv::supports(qkv.to(dtype)), device.is_cuda()) << dtype;
    }
    EXPECT_FALSE(ops::relu_qkv::supports(narrow));
    if (!device.is_cuda()) continue;
    EXPECT_ERROR(ops::relu_qkv::forward(narrow, 0),
                 "relu_qkv: qkv must be float64, float32, bfloat16 or float16 on cuda");
  }
}

TEST(ReluQkv, SaysWhatIsWrong) {
  EXPECT_ERROR(ops::relu_qkv::forward(at::rand({2, 5, 2, 1, 8}), 0),
               "relu_qkv: qkv must be floating [B, N, 3, H, d], got Float[2, 5, 2, 1, 8]");
  const at::Tensor qkv = at::rand({2, 5, 3, 1, 8}), grad = at::rand({2, 1, 5, 8});
  EXPECT_ERROR(ops::relu_qkv::backward(grad, grad.mT(), grad, qkv),
               "relu_qkv_backward: grad_k must be [B, H, N, d] = [2, 1, 5, 8]");
  EXPECT_ERROR(ops::relu_qkv::backward(grad, grad, grad.to(at::kDouble), qkv), "grad_v must be [B, H, N, d]");
}

}  // namespace
}  // namespace topomask
