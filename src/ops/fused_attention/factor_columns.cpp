#include "ops/fused_attention/factor_columns.h"

#include <ATen/ATen.h>

#include <cmath>

namespace topomask::ops::fused_attention {
namespace {

using at::Tensor;

/// x = high + low but for what both dtypes round away.
std::tuple<Tensor, Tensor> in_two(const Tensor& x, at::ScalarType type) {
  const Tensor high = x.to(type);
  return {high, (x - high.to(x.scalar_type())).to(type)};
}

Tensor with_columns(const Tensor& rows, const Tensor& a, const Tensor& b, const Tensor& c) {
  const auto for_all = [&](const Tensor& x) { return x.expand({rows.size(0), rows.size(1), -1, -1}); };
  const int64_t width = rows.size(3) + kColumnsOfFactor * a.size(2);
  const Tensor rest = at::zeros({1, 1, 1, (8 - width % 8) % 8}, rows.options());
  return at::cat(
      {rows, for_all(a), for_all(b), for_all(c), rest.expand({rows.size(0), rows.size(1), rows.size(2), -1})}, 3);
}

/// A gradient [B, H, n, r] of factors that slices share.
Tensor over_slices(const Tensor& grad, const Tensor& factors) {
  const Tensor heads = grad.sum(0);
  return heads.size(0) == factors.size(0) ? heads : heads.sum(0, /*keepdim=*/true);
}

}  // namespace

bool fits_columns(const MaskTiles& mask, const Options& options) {
  constexpr double kLeast = 1e-6;  // left is divided by it
  return mask.globals == 0 && mask.shift == 0 && std::abs(options.scale) >= kLeast;
}

std::tuple<Tensor, Tensor> with_factor_columns(const Tensor& q, const Tensor& k, const MaskTiles& mask, double scale) {
  const auto [left, left_rest] = in_two(mask.values / scale, q.scalar_type());
  const auto [right, right_rest] = in_two(mask.right, k.scalar_type());
  return {with_columns(q, left, left_rest, left), with_columns(k, right, right, right_rest)};
}

MaskTiles mask_beside_columns() {
  return {.kind = TileKind::ones};
}

Options options_beside_columns(const Options& options) {
  Options plain = options;
  plain.weighting = Weighting::multiplicative;  // by ones; D is at least 1, so that eps does not count
  return plain;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> gradients_from_columns(const Tensor& grad_q, const Tensor& grad_k,
                                                                  const MaskTiles& mask, int64_t features, double scale,
                                                                  bool want_mask) {
  const int64_t rank = mask.right.size(2);
  const Tensor own_q = grad_q.narrow(3, 0, features).contiguous();
  const Tensor own_k = grad_k.narrow(3, 0, features).contiguous();
  const auto none = [&] { return at::empty({0}, mask.values.options()); };
  if (!want_mask) return {own_q, own_k, none(), none()};
  const auto block = [&](const Tensor& grad, int64_t number) {
    return grad.narrow(3, features + number * rank, rank).to(mask.values.scalar_type());
  };
  // Gradients of the columns that hold r_high and r_low, and of those that hold l_high and l_low = left / scale.
  const Tensor left = over_slices(block(grad_q, 0) + block(grad_q, 2), mask.values) / scale;
  const Tensor right = over_slices(block(grad_k, 0) + block(grad_k, 1), mask.right);
  return {own_q, own_k, left, right};
}

}  // namespace topomask::ops::fused_attention
