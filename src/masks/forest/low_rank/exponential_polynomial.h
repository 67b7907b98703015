#pragma once

#include <complex>
#include <vector>

#include "masks/forest/low_rank/separable.h"

namespace topomask {

/// Re Σ_j p_j(x)·exp(z_j x), p_j polynomials: what sums and products of exponentials, polynomials and cosines are.
class ExponentialPolynomial {
 public:
  struct Term {
    std::complex<double> rate;                       ///< z
    std::vector<std::complex<double>> coefficients;  ///< of p, the constant first
  };

  explicit ExponentialPolynomial(std::vector<Term> terms);  ///< terms with equal rates are joined

  const std::vector<Term>& terms() const { return terms_; }
  double operator()(double x) const;
  ExponentialPolynomial operator+(const ExponentialPolynomial& other) const;
  ExponentialPolynomial operator*(const ExponentialPolynomial& other) const;

  /// f(x+y) exactly: the basis x^k Re exp(zx) and, for rates that are not real, x^k Im exp(zx).
  SeparablePtr separable() const;

 private:
  std::vector<Term> terms_;
};

}  // namespace topomask
