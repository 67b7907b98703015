#include <ATen/ATen.h>

#include "ops/layer_norm_rows/op.h"
#include "support/compare.h"
#include "support/devices.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;

/// The definition, in float64.
at::Tensor by_definition(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  const at::Tensor apart = x - x.mean(-1, true);
  return apart * (apart.square().mean(-1, true) + eps).rsqrt() * weight + bias;
}

struct Types {
  at::ScalarType x, weight, out;
  double tolerance;
};

void expect_definition(const at::Device device, const Types& types, at::IntArrayRef sizes) {
  at::manual_seed(5);
  const int64_t width = sizes.back();
  const auto drawn = [&](at::IntArrayRef shape, at::ScalarType type) {
    return (at::randn(shape, at::kDouble) + 0.5).to(type).to(device).requires_grad_();
  };
  const at::Tensor x = drawn(sizes, types.x), weight = drawn({width}, types.weight),
                   bias = drawn({width}, types.weight);
  std::vector<at::Tensor> exact{x, weight, bias};
  for (at::Tensor& one : exact) one = one.detach().to(at::kDouble).requires_grad_();
  const at::Tensor out = ops::layer_norm_rows::norm(x, weight, bias, 1e-3, types.out),
                   want = by_definition(exact[0], exact[1], exact[2], 1e-3);
  EXPECT_EQ(out.scalar_type(), types.out);
  EXPECT_TRUE(close(out, want, types.tolerance));
  const at::Tensor slope = at::randn(sizes, at::kDouble).to(device, types.out);
  const auto made = gradients(out, slope, {x, weight, bias}), wanted = gradients(want, slope.to(at::kDouble), exact);
  for (size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(made[i].scalar_type(), i == 0 ? types.x : types.weight);
    EXPECT_TRUE(close(made[i], wanted[i], types.tolerance, 1)) << i << " of " << sizes << types.x << types.out;
  }
}

TEST(LayerNormRows, IsTheDefinitionWithGradients) {
  for (const at::Device device : testing::devices()) {
    for (const Types& types : std::vector<Types>{{at::kDouble, at::kDouble, at::kDouble, 1e-12},
                                                 {at::kFloat, at::kFloat, at::kFloat, 1e-5},
                                                 {at::kFloat, at::kFloat, at::kBFloat16, 2e-2},
                                                 {at::kFloat, at::kFloat, at::kHalf, 3e-3},
                                                 {at::kBFloat16, at::kFloat, at::kBFloat16, 2e-2},
                                                 {at::kBFloat16, at::kBFloat16, at::kBFloat16, 2e-2},
                                                 {at::kHalf, at::kHalf, at::kHalf, 3e-3}}) {
      if (device.is_cuda() && types.x == at::kDouble) continue;
      for (const int64_t width : {4, 8, 32, 36, 64, 100, 128, 192, 256}) {
        expect_definition(device, types, {63, width});
        expect_definition(device, types, {2, 3, width});
        expect_definition(device, types, {width});
        expect_definition(device, types, {0, width});
      }
    }
  }
}

TEST(LayerNormRows, TakesAnyWidthOnTheCpu) {
  for (const int64_t width : {1, 7, 257}) {
    expect_definition(at::kCPU, {at::kDouble, at::kDouble, at::kDouble, 1e-10}, {5, width});
  }
}

TEST(LayerNormRows, TakesStridedAndUnalignedRows) {
  for (const at::Device device : testing::devices()) {
    const at::Tensor whole = at::randn({64, 33}, device), weight = at::rand({64}, device),
                     bias = at::rand({64}, device);
    const at::Tensor unaligned = at::randn({64 * 9 + 1}, device).narrow(0, 1, 64 * 9).view({9, 64});
    for (const at::Tensor& x : {whole.t(), unaligned}) {
      const at::Tensor given = x.detach().requires_grad_(), copy = x.clone().contiguous().requires_grad_();
      const at::Tensor out = ops::layer_norm_rows::norm(given, weight, bias, 1e-5, at::kFloat),
                       want = at::layer_norm(copy, {64}, weight, bias, 1e-5);
      EXPECT_TRUE(close(out, want, 1e-5));
      const at::Tensor slope = at::randn({64, x.size(0)}, device).t();
      EXPECT_TRUE(close(gradients(out, slope, {given})[0], gradients(want, slope, {copy})[0], 1e-5));
    }
  }
}

TEST(LayerNormRows, SupportsTheDtypesAndWidthsOfItsKernels) {
  using ops::layer_norm_rows::supports;
  EXPECT_TRUE(supports(64, at::kFloat, at::kBFloat16) && supports(256, at::kHalf, at::kHalf));
  EXPECT_FALSE(supports(260, at::kFloat, at::kFloat) || supports(66, at::kFloat, at::kFloat));
  EXPECT_FALSE(supports(64, at::kDouble, at::kDouble) || supports(64, at::kHalf, at::kBFloat16));
  for (const at::Device device : testing::devices()) {
    const at::Tensor x = at::rand({3, 64}, device), w = at::rand({64}, device), wide = at::rand({3, 260}, device);
    EXPECT_EQ(supports(x, w, w, at::kFloat), device.is_cuda());
    EXPECT_FALSE(supports(x, w, {}, at::kFloat));
    EXPECT_FALSE(supports(x, w, w.to(at::kHalf), at::kFloat));
    if (!device.is_cuda()) continue;
    EXPECT_ERROR(ops::layer_norm_rows::norm(wide, wide[0], wide[0], 1e-5, at::kFloat),
                 "layer_norm_rows: x must be float32, bfloat16 or float16 [..., width]");
  }
}

TEST(LayerNormRows, SaysWhatIsWrong) {
  const at::Tensor x = at::rand({3, 4}), w = at::rand({4}), b = at::rand({4}), rows = at::rand({3});
  const auto norm = [&](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, double eps = 1e-5) {
    return ops::layer_norm_rows::norm(x, w, b, eps, at::kFloat);
  };
  EXPECT_ERROR(norm(at::ones({3, 4}, at::kLong), w, b),
               "layer_norm_rows: x must be floating [..., width], got Long[3, 4]");
  EXPECT_ERROR(norm(at::rand({3, 0}), w, b), "layer_norm_rows: x must be floating [..., width]");
  EXPECT_ERROR(norm(x, at::rand({5}), b), "layer_norm_rows: weight must be Float or of the dtype of x, [4]");
  EXPECT_ERROR(norm(x, w, b.to(at::kDouble)), "layer_norm_rows: bias must be Float or of the dtype of x, [4]");
  EXPECT_ERROR(norm(x.to(at::kHalf), w, b.to(at::kHalf)), "layer_norm_rows: bias must be Float as weight is");
  EXPECT_ERROR(norm(x, w, b, 0), "layer_norm_rows: eps must be > 0, got 0");
  EXPECT_ERROR(norm(x, w, b, INFINITY), "layer_norm_rows: eps must be finite, got inf");
  EXPECT_ERROR(ops::layer_norm_rows::norm(x, w, b, 1e-5, at::kLong),
               "layer_norm_rows: dtype must be floating, got Long");
  EXPECT_ERROR(ops::layer_norm_rows::backward(x.t(), x, w, rows, rows),
               "layer_norm_rows_backward: grad must be floating, shaped as x");
  EXPECT_ERROR(ops::layer_norm_rows::backward(x, x, w, rows, rows.unsqueeze(1)),
               "layer_norm_rows_backward: rstd must be Float [3], a number for each row of x");
}

}  // namespace
}  // namespace topomask
