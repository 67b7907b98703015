#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "masks/diffusion/chebyshev.h"
#include "sparse/identity.h"
#include "sparse/sddmm.h"

namespace topomask {

std::vector<double> chebyshev_gradient_coefficients(double lambda, const Spectrum& spectrum, double tolerance) {
  // |T_k'| is at most k² on [−1, 1], and ∂/∂T is ∂/∂B over the halfwidth: the tail of k²·c_k counts, relative to λ and
  // not to 1.
  const double z = lambda * (spectrum.upper - spectrum.lower) / 2;
  const auto terms = static_cast<double>(chebyshev_coefficients(lambda, spectrum, tolerance).size());
  return chebyshev_coefficients(lambda, spectrum, tolerance * std::min(1.0, z) / ((terms + 1) * (terms + 1)));
}

namespace {

/// B = (T − centre)/halfwidth.
struct ScaledGenerator {
  const GeneratorMatrix& matrix;
  double centre, halfwidth;
  at::Tensor operator()(const at::Tensor& x) const { return matrix.times(x).sub_(x, centre).div_(halfwidth); }
};

/// Clenshaw's b_j = c_j x + 2B b_{j+1} − b_{j+2} for j = K … 1 in segments of about √K, from the lowest up: the pairs
/// above the segments are kept, and the rest is computed again.
class ClenshawSegments {
 public:
  ClenshawSegments(const ScaledGenerator& scaled, at::Tensor coefficients, at::Tensor x)
      : scaled_(scaled), c_(std::move(coefficients)), x_(std::move(x)), degree_(c_.size(0) - 1) {
    length_ = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(degree_))));
    above_.resize((degree_ + length_ - 1) / length_);
    Pair pair;
    for (int64_t j = degree_; j > 0; --j) {
      if (j == last(segment_of(j))) above_[segment_of(j)] = pair;
      pair = below(pair, j);
    }
  }

  int64_t count() const { return static_cast<int64_t>(above_.size()); }
  int64_t first(int64_t segment) const { return segment * length_ + 1; }

  /// b_first, …, b_last of a segment.
  std::vector<at::Tensor> operator()(int64_t segment) const {
    std::vector<at::Tensor> result;
    Pair pair = above_[segment];
    for (int64_t j = last(segment); j >= first(segment); --j) {
      pair = below(pair, j);
      result.push_back(pair.next);
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

 private:
  struct Pair {
    at::Tensor next, after;  ///< b_{j+1} and b_{j+2}; undefined: zero
  };

  int64_t segment_of(int64_t j) const { return (j - 1) / length_; }
  int64_t last(int64_t segment) const { return std::min((segment + 1) * length_, degree_); }
  Pair below(const Pair& pair, int64_t j) const {
    at::Tensor b = x_ * c_[j];
    if (pair.next.defined()) b.add_(scaled_(pair.next), 2);
    if (pair.after.defined()) b.sub_(pair.after);
    return {b, pair.next};
  }

  const ScaledGenerator& scaled_;
  at::Tensor c_, x_;
  int64_t degree_, length_ = 1;
  std::vector<Pair> above_;
};

}  // namespace

GeneratorGradient chebyshev_gradient(const GeneratorMatrix& matrix, const Spectrum& spectrum,
                                     const std::vector<std::vector<double>>& series, const at::Tensor& x,
                                     const at::Tensor& grad) {
  const at::Tensor c = coefficient_table(series, x);
  at::Tensor edges = at::zeros({1, matrix.edges.pattern->entries()}, x.options());
  at::Tensor diagonal = at::zeros({1, matrix.nodes()}, x.options());
  if (c.size(0) > 1) {
    // The cotangent of b_j is T_j(B) grad, and that of the product is T_0(B) grad: with both,
    // ∂B = grad b_1ᵀ + 2Σ_{k≥1} T_k(B) grad b_{k+1}ᵀ.
    const double halfwidth = (spectrum.upper - spectrum.lower) / 2;
    const ScaledGenerator scaled{matrix, (spectrum.upper + spectrum.lower) / 2, halfwidth};
    const PatternPtr identity = identity_pattern(matrix.nodes())->to(x.device());
    const ClenshawSegments segments(scaled, c, x);
    at::Tensor before, current = grad;  // T_{k−1}(B) grad and T_k(B) grad
    for (int64_t segment = 0; segment < segments.count(); ++segment) {
      int64_t k = segments.first(segment) - 1;
      for (const at::Tensor& b : segments(segment)) {
        if (k > 0) {
          at::Tensor next = scaled(current);
          if (k > 1) next.mul_(2).sub_(before);
          before = current;
          current = next;
        }
        const double factor = (k == 0 ? 1 : 2) / halfwidth;
        edges.add_(sddmm(current, b, *matrix.edges.pattern, 1), factor);
        diagonal.add_(sddmm(current, b, *identity, 1), factor);
        ++k;
      }
    }
  }
  return {edges.view(-1), diagonal.view(-1)};
}

}  // namespace topomask
