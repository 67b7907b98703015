#include "torture/expected.h"

#include <ATen/ATen.h>

#include <limits>

namespace topomask::torture {
namespace {

at::Tensor safe_divide(const at::Tensor& a, const at::Tensor& b) {
  return a / b.clamp_min(1e-300);
}

/// D kept eps from zero with its sign; constant where it is moved.
at::Tensor kept_away(const at::Tensor& denominator, double eps) {
  const at::Tensor least = at::full_like(denominator, eps).masked_fill_(denominator < 0, -eps);
  return at::where(denominator.abs() < eps, least, denominator);
}

/// Rows that rounding decides for another reason than the size of D.
struct Doubtful {
  at::Tensor rows;   ///< bool [..., N, 1], or undefined: none
  at::Tensor least;  ///< [..., N, 1]: the clamp of D may act as low as this part of eps there
};

/// Everything but the weights is the same for both kinds of attention. `sums` E_ij.
Expected normalised(const at::Tensor& weights, const at::Tensor& sums, const at::Tensor& entries, const at::Tensor& v,
                    double eps, const Tolerance& tolerance, const Doubtful& doubtful = {}) {
  Expected result;
  const double tol = tolerance.total();
  const at::Tensor d = weights.sum(-1, true), kept = kept_away(d, eps);
  result.out = at::matmul(weights, v) / kept;
  const at::Tensor out = result.out.detach(), plain = d.detach(), size = kept.detach().abs();
  const at::Tensor total = sums.sum(-1, true), off = total * tol;
  const at::Tensor condition = safe_divide(total, size).clamp_min(1);
  // Whether D is clamped, or to which sign, is a matter of rounding.
  at::Tensor unsure =
      ((plain.abs() - eps).abs() <= 2 * off).logical_or((plain.abs() <= 2 * off).logical_and(plain.abs() < 2 * eps));
  unsure = unsure.logical_and(total > 0);
  at::Tensor floor = at::full_like(plain, eps * 0.99);
  if (doubtful.rows.defined()) {
    unsure = unsure.logical_or(doubtful.rows);
    floor = at::where(doubtful.rows, floor * doubtful.least, floor);
  }
  result.sound = (condition * tol < 0.1).logical_and(unsure.logical_not());
  const at::Tensor reach = at::matmul(sums, v.detach().abs());
  result.spread = reach / size;
  const at::Tensor error = (reach + total * out.abs()) / size;
  const at::Tensor least = at::maximum(plain.abs() - 2 * off, floor);
  result.scale = at::where(result.sound, error, safe_divide(reach * (1 + tol), least));
  result.inverse = condition / size;
  result.weighted = sums * result.inverse;
  result.entries = entries;
  result.sums = sums;
  return result;
}

/// κ_i/|D_i|·Σ_c|g_ic|(|v_jc| + |out_ic|): the size of ∂L/∂w_ij.
at::Tensor weight_scale(const at::Tensor& v, const Expected& expected, const at::Tensor& cotangent) {
  const at::Tensor g = cotangent.abs();
  return (at::matmul(g, v.detach().abs().mT()) + (g * expected.spread).sum(-1, true)) * expected.inverse;
}

}  // namespace

double Tolerance::tiny() const {
  return inside < 1e-8 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}

Tolerance tolerance_of(at::ScalarType dtype, double mask_accuracy) {
  switch (dtype) {
    case at::kDouble:
      return {1e-11, 1e-11, mask_accuracy};
    case at::kFloat:
      return {1e-5, 1e-5, mask_accuracy};
    case at::kHalf:
      return {5e-3, 1e-5, mask_accuracy};
    default:
      return {3e-2, 1e-5, mask_accuracy};
  }
}

Expected expected_attention(const KernelProblem& p, const Tolerance& tolerance) {
  const at::Tensor products = at::matmul(p.phi_q, p.phi_k.mT());
  const at::Tensor sizes = at::matmul(p.size_q, p.size_k.mT());
  return normalised(products * p.mask.matrix, sizes * p.mask.magnitude, sizes, p.v, p.eps, tolerance);
}

Scales attention_scales(const KernelProblem& p, const Expected& expected, const at::Tensor& cotangent) {
  const at::Tensor grad = weight_scale(p.v, expected, cotangent), masked = grad * p.mask.magnitude;
  return {at::matmul(masked, p.size_k), at::matmul(masked.mT(), p.size_q),
          at::matmul(expected.weighted.mT(), cotangent.abs()), grad * expected.entries};
}

Expected expected_softmax(const SoftmaxProblem& p, const Tolerance& tolerance) {
  const at::Tensor scores = at::matmul(p.q, p.k.mT()) * p.scale;
  const at::Tensor plain = scores.detach();
  // An exponent is as accurate as the sum that it is.
  at::Tensor terms = at::matmul(p.q.detach().abs(), p.k.detach().abs().mT()) * std::abs(p.scale);
  const double ratio = tolerance.inside / tolerance.rounding;
  if (p.additive) {
    const at::Tensor shifted = scores + p.mask.matrix;
    const at::Tensor largest = shifted.detach().amax(-1, true);
    const at::Tensor weights = (shifted - largest).exp();
    const at::Tensor sizes = weights.detach() * (1 + (terms + p.mask.magnitude) * ratio +
                                                 p.mask.magnitude * (tolerance.mask / tolerance.total()));
    return normalised(weights, sizes, sizes, p.v, 1e-300, tolerance);
  }
  const at::Tensor matrix = p.mask.matrix.detach();
  const auto largest_where = [&](const at::Tensor& present) {
    const at::Tensor kept = at::where(present, plain, -std::numeric_limits<double>::infinity());
    return kept.amax(-1, true).nan_to_num(0.0, 0.0, 0.0);
  };
  const at::Tensor largest = largest_where(matrix != 0);
  const at::Tensor weights = (scores - largest).exp();
  const at::Tensor sizes = weights.detach() * (1 + terms * ratio);
  const at::Tensor product = weights * p.mask.matrix;
  // An entry that is zero may come out as rounding and count for the maximum, and a tiny one as zero and not count:
  // that scales a row, which matters where its denominator is clamped. With the tiny ones gone the maximum may be as
  // low as that of the rest, or as any score where there is no rest; the row is then larger by what the maximum is
  // lower, and eps as much smaller next to it.
  const at::Tensor wide = largest_where(p.mask.magnitude.expand_as(matrix) > 0),
                   certain = (matrix.abs() > p.mask.magnitude * tolerance.total() + tolerance.tiny()).expand_as(plain),
                   narrow = largest_where(certain);
  const at::Tensor d = product.detach().sum(-1, true).abs();
  const at::Tensor clamped = d * (largest - wide).exp() < p.eps * 1.01;
  // Exponentials of absent pairs, which are in the gradient of M alone, are cut off before they overflow.
  const double most = tolerance.inside < 1e-8 ? 300 : 40;
  const at::Tensor beyond = plain.amax(-1, true) - largest > most;
  const at::Tensor lowest = at::where(certain.any(-1, true), narrow, plain.amin(-1, true));
  const at::Tensor rescaled = clamped.logical_and(wide != narrow);
  const at::Tensor least = at::where(rescaled, (lowest - largest).clamp_max(0).exp(), 1.0);
  // An exponential, an entry of M and their product each lose what is below the least normal number, which a small D
  // makes large again; in units of the relative error that sums are multiplied by. What is zero by structure stays so.
  const double lost = tolerance.tiny() / tolerance.total();
  const at::Tensor& magnitude = p.mask.magnitude;
  const at::Tensor sums = at::where(magnitude > 0, (sizes + lost) * (magnitude + lost) + lost, 0.0);
  return normalised(product, sums, sizes + lost, p.v, p.eps, tolerance, {rescaled.logical_or(beyond), least});
}

Scales softmax_scales(const SoftmaxProblem& p, const Expected& expected, const at::Tensor& cotangent) {
  const at::Tensor grad = weight_scale(p.v, expected, cotangent);
  // ∂L/∂s_ij = w_ij ∂L/∂w_ij, and the same for an additive mask.
  const at::Tensor scores = grad * expected.sums;
  return {at::matmul(scores, p.k.detach().abs()) * std::abs(p.scale),
          at::matmul(scores.mT(), p.q.detach().abs()) * std::abs(p.scale),
          at::matmul(expected.weighted.mT(), cotangent.abs()), grad * expected.entries};
}

}  // namespace topomask::torture
