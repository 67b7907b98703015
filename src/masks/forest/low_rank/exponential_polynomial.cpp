#include "masks/forest/low_rank/exponential_polynomial.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace topomask {
namespace {

using Complex = std::complex<double>;
using Term = ExponentialPolynomial::Term;

/// The product of two terms.
Term times(const Term& a, const Term& b) {
  Term result{a.rate + b.rate, std::vector<Complex>(a.coefficients.size() + b.coefficients.size() - 1)};
  for (size_t i = 0; i < a.coefficients.size(); ++i) {
    for (size_t j = 0; j < b.coefficients.size(); ++j) {
      result.coefficients[i + j] += a.coefficients[i] * b.coefficients[j];
    }
  }
  return result;
}

/// The same real part, with the complex conjugate inside.
Term conjugate(Term term) {
  term.rate = std::conj(term.rate);
  for (Complex& c : term.coefficients) c = std::conj(c);
  return term;
}

class ExactSum final : public Separable {
 public:
  explicit ExactSum(const std::vector<Term>& terms) {
    for (const Term& term : terms) {
      parts_.push_back({term.rate, static_cast<int64_t>(term.coefficients.size())});
      rank += parts_.back().functions() * parts_.back().powers;
    }
    matrix_.assign(rank * rank, 0.0);
    int64_t first = 0;
    for (size_t j = 0; j < terms.size(); ++j) {
      fill(terms[j], parts_[j].functions(), first);
      first += parts_[j].functions() * parts_[j].powers;
    }
  }

  void evaluate(double x, double* send, double* receive) const override {
    double* g = send;
    for (const Part& part : parts_) {
      const double size = std::exp(part.rate.real() * x), angle = part.rate.imag() * x;
      double re = part.functions() == 1 ? size : size * std::cos(angle);
      double im = part.functions() == 1 ? 0 : size * std::sin(angle);
      for (int64_t k = 0; k < part.powers; ++k, re *= x, im *= x) {
        *g++ = re;
        if (part.functions() == 2) *g++ = im;
      }
    }
    for (int64_t k = 0; k < rank; ++k) {
      receive[k] = std::inner_product(send, send + rank, matrix_.begin() + k * rank, 0.0);
    }
  }

 private:
  struct Part {
    Complex rate;
    int64_t powers;
    int64_t functions() const { return rate.imag() == 0 ? 1 : 2; }
  };

  /// c(x+y)^m e^{z(x+y)} = Σ_k c·C(m, k)·(x^k e^{zx})(y^{m−k} e^{zy}), and Re(c·u·v) by real and imaginary parts.
  void fill(const Term& term, int64_t functions, int64_t first) {
    for (size_t m = 0; m < term.coefficients.size(); ++m) {
      double binomial = 1;
      for (size_t k = 0; k <= m; ++k) {
        const Complex c = binomial * term.coefficients[m];
        double* at = matrix_.data() + (first + functions * static_cast<int64_t>(k)) * rank + first +
                     functions * static_cast<int64_t>(m - k);
        at[0] += c.real();
        if (functions == 2) {
          at[1] -= c.imag();
          at[rank] -= c.imag();
          at[rank + 1] -= c.real();
        }
        binomial *= static_cast<double>(m - k) / static_cast<double>(k + 1);
      }
    }
  }

  std::vector<Part> parts_;
  std::vector<double> matrix_;  // B, f(x+y) = Σ_kl g_k(x) B_kl g_l(y): sends g, receives through B
};

}  // namespace

ExponentialPolynomial::ExponentialPolynomial(std::vector<Term> terms) {
  for (Term& term : terms) {
    if (term.rate.imag() < 0) term = conjugate(std::move(term));
    if (term.rate.imag() == 0) {
      for (Complex& c : term.coefficients) c = c.real();
    }
    const auto same = std::find_if(terms_.begin(), terms_.end(), [&](const Term& t) { return t.rate == term.rate; });
    if (same == terms_.end()) {
      terms_.push_back(std::move(term));
      continue;
    }
    same->coefficients.resize(std::max(same->coefficients.size(), term.coefficients.size()));
    for (size_t k = 0; k < term.coefficients.size(); ++k) same->coefficients[k] += term.coefficients[k];
  }
}

double ExponentialPolynomial::operator()(double x) const {
  double sum = 0;
  for (const Term& term : terms_) {
    Complex value = 0;
    for (size_t k = term.coefficients.size(); k-- > 0;) value = value * x + term.coefficients[k];
    sum += (value * std::exp(term.rate * x)).real();
  }
  return sum;
}

ExponentialPolynomial ExponentialPolynomial::operator+(const ExponentialPolynomial& other) const {
  std::vector<Term> terms = terms_;
  terms.insert(terms.end(), other.terms_.begin(), other.terms_.end());
  return ExponentialPolynomial(std::move(terms));
}

ExponentialPolynomial ExponentialPolynomial::operator*(const ExponentialPolynomial& other) const {
  std::vector<Term> terms;
  for (const Term& a : terms_) {
    for (const Term& b : other.terms_) {
      // Re u · Re v = ½ Re(uv + u·conj(v)).
      for (Term term : {times(a, b), times(a, conjugate(b))}) {
        for (Complex& c : term.coefficients) c *= 0.5;
        terms.push_back(std::move(term));
      }
    }
  }
  return ExponentialPolynomial(std::move(terms));
}

SeparablePtr ExponentialPolynomial::separable() const {
  return std::make_shared<ExactSum>(terms_);
}

}  // namespace topomask
