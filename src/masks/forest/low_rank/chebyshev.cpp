#include "masks/forest/low_rank/chebyshev.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace topomask {
namespace {

constexpr int64_t kLargestDegree = 512;

/// cos of the j-th Chebyshev angle of n: the zeros of T_n.
double zero_of(int64_t j, int64_t n) {
  return std::cos(std::numbers::pi * (static_cast<double>(j) + 0.5) / static_cast<double>(n));
}

/// From values at the zeros of T_n, [n] or [n, columns], to the n coefficients of the polynomial through them.
class Interpolation {
 public:
  explicit Interpolation(int64_t n) : matrix_(at::empty({n, n}, at::kDouble)) {
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t j = 0; j < n; ++j) {
        // The angle is reduced while it is an integer: cos(kφ) would lose three digits at k = 512.
        const double angle =
            std::numbers::pi * static_cast<double>(k * (2 * j + 1) % (4 * n)) / static_cast<double>(2 * n);
        matrix_.mutable_data_ptr<double>()[k * n + j] = (k == 0 ? 1.0 : 2.0) / static_cast<double>(n) * std::cos(angle);
      }
    }
  }
  at::Tensor operator()(const at::Tensor& values) const { return at::matmul(matrix_, values); }

 private:
  at::Tensor matrix_;
};

/// Σ_k c_k T_k(x), by Clenshaw's recurrence.
double evaluate(const std::vector<double>& c, double x) {
  double next = 0, after = 0;
  for (size_t k = c.size(); k-- > 1;) {
    const double here = c[k] + 2 * x * next - after;
    after = next;
    next = here;
  }
  return c.empty() ? 0.0 : c[0] + x * next - after;
}

struct Expansion {
  std::vector<double> coefficients;  ///< on [0, length], mapped to [−1, 1]
  double error = 0;                  ///< relative to max|f|, at points between those it was made of
  double largest = 0;                ///< max|f|
};

// Shares of the tolerance: for f − p, for the terms of p left out, for the eigenvectors left out. The first two are
// small, since what is in p but not in f takes eigenvectors of its own. Where no degree brings f − p down to its share,
// the other two are shares of what it leaves of the tolerance.
constexpr double kExpansionShare = 0.05, kTermsShare = 0.05, kEigenvectorsShare = 0.8;

/// max|f − p|/max|f| at `probes` + 1 points, both ends among them, where f is least like a polynomial.
void measure(const std::function<double(double)>& at, int64_t probes, Expansion& expansion) {
  double error = 0;
  for (int64_t j = 0; j <= probes; ++j) {
    const double unit = std::cos(std::numbers::pi * static_cast<double>(j) / static_cast<double>(probes));
    const double value = at(unit), difference = std::abs(evaluate(expansion.coefficients, unit) - value);
    expansion.largest = std::max(expansion.largest, std::abs(value));
    if (!(difference <= error)) error = difference;  // NaN is met by nothing
  }
  expansion.error = error == 0 ? 0 : error / expansion.largest;  // a constant 0 is met by no terms at all
}

/// Leaves out the highest terms of p that change it by at most `slack` together.
void drop_terms(double slack, Expansion& expansion) {
  std::vector<double>& c = expansion.coefficients;
  for (double dropped = 0; c.size() > 1 && dropped + std::abs(c.back()) <= slack; c.pop_back()) {
    dropped += std::abs(c.back());
  }
}

Expansion expand(const std::function<double(double)>& at, int64_t degree) {
  const int64_t points = degree + 1;
  at::Tensor values = at::empty({points}, at::kDouble);
  Expansion result;
  for (int64_t j = 0; j < points; ++j) {
    const double value = at(zero_of(j, points));
    values.mutable_data_ptr<double>()[j] = value;
    result.largest = std::max(result.largest, std::abs(value));
  }
  const at::Tensor coefficients = Interpolation(points)(values);
  result.coefficients.assign(coefficients.const_data_ptr<double>(), coefficients.const_data_ptr<double>() + points);
  measure(at, 2 * points + 1, result);
  return result;
}

void chebyshev_polynomials(double unit, int64_t count, double* t) {
  t[0] = 1;
  if (count > 1) t[1] = unit;
  for (int64_t k = 2; k < count; ++k) t[k] = 2 * unit * t[k - 1] - t[k - 2];
}

/// T_0 … T_{degrees−1} at `points` points of [−1, 1], both ends among them: [points, degrees].
at::Tensor sampled_polynomials(int64_t points, int64_t degrees) {
  at::Tensor result = at::empty({points, degrees}, at::kDouble);
  for (int64_t i = 0; i < points; ++i) {
    const double unit = std::cos(std::numbers::pi * static_cast<double>(i) / static_cast<double>(points - 1));
    chebyshev_polynomials(unit, degrees, result.mutable_data_ptr<double>() + i * degrees);
  }
  return result;
}

class ChebyshevSum final : public Separable {
 public:
  /// p on [0, 2·reach]: with x = reach·(1+x̂)/2, y alike, its argument is (x̂+ŷ)/2. Eigenvectors of p(x+y) at its zeros
  /// are left out if they change it by at most `slack`, as seen on a finer grid.
  ChebyshevSum(const std::vector<double>& p, double reach, double slack)
      : reach_(reach), degrees_(static_cast<int64_t>(p.size())) {
    at::Tensor sums = at::empty({degrees_, degrees_}, at::kDouble);
    for (int64_t i = 0; i < degrees_; ++i) {
      for (int64_t j = 0; j < degrees_; ++j) {
        sums.mutable_data_ptr<double>()[i * degrees_ + j] =
            topomask::evaluate(p, 0.5 * (zero_of(i, degrees_) + zero_of(j, degrees_)));
      }
    }
    const auto [values, vectors] = at::linalg_eigh(sums);
    const at::Tensor coefficients = Interpolation(degrees_)(vectors);  // p has degree n−1 in x: exact

    const at::Tensor functions = at::matmul(sampled_polynomials(2 * degrees_ + 1, degrees_), coefficients);
    const at::Tensor order = values.abs().argsort();
    const auto error_without = [&](int64_t count) {
      const at::Tensor left_out = order.slice(0, 0, count), g = functions.index_select(1, left_out);
      return at::matmul(g * values.index_select(0, left_out), g.t()).abs().max().item<double>();
    };
    int64_t dropped = 0;  // the most that can be, by bisection
    for (int64_t most = degrees_; dropped < most;) {
      const int64_t middle = (dropped + most + 1) / 2;
      if (error_without(middle) <= slack) {
        dropped = middle;
      } else {
        most = middle - 1;
      }
    }
    rank = degrees_ - dropped;
    values_ = values.index_select(0, order.slice(0, dropped));
    vectors_ = coefficients.index_select(1, order.slice(0, dropped)).contiguous();
  }

  void evaluate(double x, double* send, double* receive) const override {
    double t[kLargestDegree + 1];
    chebyshev_polynomials(reach_ > 0 ? 2 * x / reach_ - 1 : -1, degrees_, t);
    const double* vector = vectors_.const_data_ptr<double>();
    for (int64_t k = 0; k < rank; ++k) send[k] = 0;
    for (int64_t l = 0; l < degrees_; ++l, vector += rank) {
      for (int64_t k = 0; k < rank; ++k) send[k] += t[l] * vector[k];
    }
    const double* value = values_.const_data_ptr<double>();
    for (int64_t k = 0; k < rank; ++k) receive[k] = value[k] * send[k];
  }

 private:
  double reach_;
  int64_t degrees_;
  at::Tensor values_;   // [rank], the eigenvalues kept
  at::Tensor vectors_;  // [degrees, rank], their eigenvectors as Chebyshev coefficients
};

}  // namespace

double largest_value(const std::function<double(double)>& f, double length) {
  double largest = 0;
  for (int64_t j = 0; j <= 2 * kLargestDegree; ++j) {
    const double unit = std::cos(std::numbers::pi * static_cast<double>(j) / static_cast<double>(2 * kLargestDegree));
    largest = std::max(largest, std::abs(f(0.5 * length * (1 + unit))));
  }
  return largest;
}

SeparablePtr chebyshev_separable(const std::function<double(double)>& f, double reach, double tolerance,
                                 double largest) {
  const std::function<double(double)> at = [&](double unit) {
    const double distance = reach * (1 + unit), value = f(distance);
    TORCH_CHECK(std::isfinite(value), "DistanceFunction::smooth: f must be finite on [0, ", 2 * reach, "], got ",
                std::isnan(value) ? "nan" : c10::str(value), " at ", distance);
    return value;
  };
  const auto within = [&](Expansion expansion, double slack) {
    drop_terms(kTermsShare * slack * expansion.largest, expansion);
    return std::make_shared<ChebyshevSum>(expansion.coefficients, reach,
                                          kEigenvectorsShare * slack * expansion.largest);
  };
  Expansion best;
  for (int64_t degree = 4; degree <= kLargestDegree; degree *= 2) {
    Expansion expansion = expand(at, degree);
    if (expansion.error <= kExpansionShare * tolerance) return within(std::move(expansion), tolerance);
    if (degree == 4 || expansion.error <= best.error) best = std::move(expansion);
  }
  // Near a kink, or near the precision of the machine, f − p takes most of the tolerance: it is measured at more
  // points, and relative to the largest value that f has anywhere, to which the tolerance refers.
  constexpr int64_t kProbesPerPoint = 16;
  best.largest = std::max(best.largest, largest);
  measure(at, kProbesPerPoint * static_cast<int64_t>(best.coefficients.size()), best);
  TORCH_CHECK(best.error < tolerance, "DistanceFunction::smooth: tolerance ", tolerance,
              " must be within reach of degree ", kLargestDegree, " on [0, ", 2 * reach, "], got a relative error of ",
              best.error, "; a larger tolerance, a smoother function or integer lengths would do");
  const double slack = tolerance - best.error;
  return within(std::move(best), slack);
}

}  // namespace topomask
