#include "masks/forest/chebyshev.h"

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
// small, since what p has that f has not takes eigenvectors of its own.
constexpr double kExpansionShare = 0.05, kTermsShare = 0.05, kEigenvectorsShare = 0.8;

Expansion expand(const std::function<double(double)>& f, double length, int64_t degree, double tolerance) {
  const int64_t points = degree + 1;
  const auto at = [&](double unit) {
    const double distance = 0.5 * length * (1 + unit), value = f(distance);
    TORCH_CHECK(std::isfinite(value), "DistanceFunction::smooth: f must be finite on [0, ", length, "], got ",
                std::isnan(value) ? "nan" : c10::str(value), " at ", distance);
    return value;
  };
  at::Tensor values = at::empty({points}, at::kDouble);
  Expansion result;
  double& largest = result.largest;
  for (int64_t j = 0; j < points; ++j) {
    const double value = at(zero_of(j, points));
    values.mutable_data_ptr<double>()[j] = value;
    largest = std::max(largest, std::abs(value));
  }
  const at::Tensor coefficients = Interpolation(points)(values);
  result.coefficients.assign(coefficients.const_data_ptr<double>(), coefficients.const_data_ptr<double>() + points);
  const int64_t probes = 2 * points + 1;
  double error = 0;
  for (int64_t j = 0; j <= probes; ++j) {
    // The ends too, where f is least like a polynomial.
    const double unit = std::cos(std::numbers::pi * static_cast<double>(j) / static_cast<double>(probes));
    const double value = at(unit);
    largest = std::max(largest, std::abs(value));
    error = std::max(error, std::abs(evaluate(result.coefficients, unit) - value));
  }
  // A constant 0 is met by no terms at all.
  result.error = error == 0 ? 0 : error / largest;
  double dropped = 0;
  while (result.coefficients.size() > 1 &&
         dropped + std::abs(result.coefficients.back()) <= kTermsShare * tolerance * largest) {
    dropped += std::abs(result.coefficients.back());
    result.coefficients.pop_back();
  }
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
  /// p on [0, 2·reach]: with x = reach·(1+x̂)/2, y alike, its argument is (x̂+ŷ)/2. Of the eigenvectors of p(x+y) at its
  /// zeros, those are left out that change it by at most `slack`, as seen on a finer grid.
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

SeparablePtr chebyshev_separable(const std::function<double(double)>& f, double reach, double tolerance) {
  double error = 0;
  for (int64_t degree = 4; degree <= kLargestDegree; degree *= 2) {
    const Expansion expansion = expand(f, 2 * reach, degree, tolerance);
    if (expansion.error <= kExpansionShare * tolerance) {
      return std::make_shared<ChebyshevSum>(expansion.coefficients, reach,
                                            kEigenvectorsShare * tolerance * expansion.largest);
    }
    error = expansion.error;
  }
  TORCH_CHECK(false, "DistanceFunction::smooth: tolerance ", tolerance, " must be within reach of degree ",
              kLargestDegree, " on [0, ", 2 * reach, "], got a relative error of ", error,
              "; a larger tolerance, a smoother function or integer lengths would do");
}

}  // namespace topomask
