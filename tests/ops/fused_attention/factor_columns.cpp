// An additive mask of low rank as columns of q and k, in bfloat16, against the dense formula in double.

#include "ops/fused_attention/factor_columns.h"

#include <ATen/ATen.h>

#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask::ops::fused_attention {
namespace {

using at::Tensor;
using testing::close;
using testing::gradients;
using testing::normal;

constexpr int64_t kBatch = 2, kHeads = 3, kNodes = 150, kFeatures = 14, kValues = 9;

Tensor rows(int64_t width, uint64_t seed) {
  return normal({kBatch, kHeads, kNodes, width}, seed).to(at::kBFloat16);
}

/// The output and the gradients of q, k, v, left and right.
std::vector<Tensor> dense(const Tensor& q, const Tensor& k, const Tensor& v, const MaskTiles& mask, double scale,
                          const Tensor& cotangent) {
  std::vector<Tensor> inputs;
  for (const Tensor& x : {q, k, v, mask.values, mask.right}) {
    inputs.push_back(x.detach().to(at::kDouble).requires_grad_());
  }
  const Tensor scores = inputs[0].matmul(inputs[1].mT()) * scale + inputs[3].matmul(inputs[4].mT());
  const Tensor out = scores.softmax(-1).matmul(inputs[2]);
  auto result = gradients(out, cotangent.to(at::kDouble), inputs);
  result.insert(result.begin(), out);
  return result;
}

std::vector<Tensor> by_columns(const Tensor& q, const Tensor& k, const Tensor& v, const MaskTiles& mask, double scale,
                               const Tensor& cotangent) {
  const Options options = options_beside_columns({.weighting = Weighting::additive, .scale = scale});
  const auto [wide_q, wide_k] = with_factor_columns(q, k, mask, scale);
  EXPECT_EQ(wide_q.size(3) % 8, 0);
  const Three made = forward(wide_q, wide_k, v, mask_beside_columns(), options);
  const Five back = backward(cotangent, wide_q, wide_k, v, mask_beside_columns(), options, made, false);
  const auto [grad_q, grad_k, left, right] =
      gradients_from_columns(std::get<0>(back), std::get<1>(back), mask, q.size(3), scale, true);
  return {std::get<0>(made), grad_q, grad_k, std::get<2>(back), left, right};
}

MaskTiles factors(int64_t heads, int64_t rank, double size) {
  const auto side = [&](uint64_t seed) { return (normal({heads, kNodes, rank}, seed) * size).to(at::kFloat); };
  return {.kind = TileKind::factors, .values = side(5), .right = side(6)};
}

TEST(FactorColumns, AreTheDenseFormula) {
  const Tensor q = rows(kFeatures, 1), k = rows(kFeatures, 2), v = rows(kValues, 3), cotangent = rows(kValues, 4);
  for (const int64_t heads : {int64_t{1}, kHeads}) {
    for (const int64_t rank : {1, 7}) {
      for (const double scale : {0.3, -1.5}) {
        const MaskTiles mask = factors(heads, rank, 1);
        const auto expected = dense(q, k, v, mask, scale, cotangent);
        const auto actual = by_columns(q, k, v, mask, scale, cotangent);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(actual[i].sizes(), expected[i].sizes());
          EXPECT_TRUE(close(actual[i], expected[i], 0.01, 1e-3))
              << "heads " << heads << ", rank " << rank << ", scale " << scale << ", tensor " << i;
        }
      }
    }
  }
}

TEST(FactorColumns, KeepWhatOneRoundingToBFloat16Loses) {
  const Tensor q = rows(kFeatures, 1), k = rows(kFeatures, 2), v = rows(kValues, 3), cotangent = rows(kValues, 4);
  const MaskTiles mask = factors(1, 20, 5);  // exponents of hundreds
  const auto rounded = [](const Tensor& x) { return x.to(at::kBFloat16).to(at::kFloat); };
  MaskTiles coarse = mask;
  coarse.values = rounded(mask.values), coarse.right = rounded(mask.right);
  const Tensor expected = dense(q, k, v, mask, 0.3, cotangent)[0];
  EXPECT_TRUE(close(by_columns(q, k, v, mask, 0.3, cotangent)[0], expected, 0.02, 1e-3));
  EXPECT_FALSE(close(dense(q, k, v, coarse, 0.3, cotangent)[0], expected, 0.1, 1e-3));
}

TEST(FactorColumns, AreTakenWhereKernelsForBFloat16HaveRoom) {
  const auto takes = [](int64_t features, int64_t rank, at::DeviceType device = at::kCUDA,
                        Weighting weighting = Weighting::additive, at::ScalarType dtype = at::kBFloat16) {
    return takes_columns({dtype, features, 64, TileKind::factors, weighting, device, rank});
  };
  EXPECT_TRUE(takes(64, 21));
  EXPECT_FALSE(takes(64, 22));
  EXPECT_FALSE(takes(64, 0));
  EXPECT_FALSE(takes(64, 4, at::kCPU));
  EXPECT_FALSE(takes(64, 4, at::kCUDA, Weighting::multiplicative));
  EXPECT_FALSE(takes(64, 4, at::kCUDA, Weighting::additive, at::kHalf));
  const MaskTiles mask = factors(1, 3, 1);
  EXPECT_TRUE(fits_columns(mask, {.scale = 0.1}));
  EXPECT_FALSE(fits_columns(mask, {.scale = 0}));
  MaskTiles with_token = mask;
  with_token.globals = 1;
  EXPECT_FALSE(fits_columns(with_token, {.scale = 0.1}));
}

}  // namespace
}  // namespace topomask::ops::fused_attention
