#include "topomask/coefficients.h"

#include <ATen/ATen.h>

#include "core/checks.h"

namespace topomask {
namespace {

constexpr int64_t kMostTerms = int64_t{1} << 24;
constexpr int64_t kMostFactors = int64_t{1} << 16;

void check_terms(const char* op, int64_t terms) {
  TORCH_CHECK(terms >= 0, op, ": terms must be >= 0, got ", terms);
  TORCH_CHECK(terms <= kMostTerms, op, ": terms must be at most 2^24, got ", terms);
}

/// f_0 = 1, f_{k+1} = f_k·ratio(k).
template <class Ratio>
at::Tensor by_ratio(const char* op, const char* name, double parameter, int64_t terms, const Ratio& ratio) {
  check_terms(op, terms);
  check_finite(op, name, parameter);
  at::Tensor f = at::empty({terms}, at::kDouble);
  double* value = f.mutable_data_ptr<double>();
  double term = 1;
  for (int64_t k = 0; k < terms; ++k) {
    TORCH_CHECK(std::isfinite(term), op, ": ", name, " must give finite coefficients, got ", parameter,
                ", which gives ", term, " at ", k);
    value[k] = term;
    term *= ratio(static_cast<double>(k));
  }
  return f;
}

void check_series(const char* op, const char* name, const at::Tensor& series, int64_t factors) {
  TORCH_CHECK(series.defined() && (series.dim() == 1 || series.dim() == 2) && is_real(series.scalar_type()), op, ": ",
              name, " must be Float or Double, [K] or [H, K], got ", describe(series));
  TORCH_CHECK(factors >= 1, op, ": factors must be >= 1, got ", factors);
  TORCH_CHECK(factors <= kMostFactors, op, ": factors must be at most 2^16, got ", factors);
  check_finite(op, name, series);
}

/// The first `terms` coefficients of the product of two series.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, int64_t terms) {
  std::vector<at::Tensor> shifted;
  for (int64_t k = 0; k < std::min(a.size(-1), terms); ++k) {
    const int64_t room = terms - k, taken = std::min(room, b.size(-1));
    shifted.push_back(at::constant_pad_nd(a.narrow(-1, k, 1) * b.narrow(-1, 0, taken), {k, room - taken}));
  }
  return at::stack(shifted).sum(0);
}

}  // namespace

at::Tensor diffusion_coefficients(int64_t terms, double b) {
  return by_ratio("diffusion_coefficients", "b", b, terms, [b](double k) { return b / (2 * (k + 1)); });
}

at::Tensor regularised_laplacian_coefficients(int64_t terms, double d) {
  return by_ratio("regularised_laplacian_coefficients", "d", d, terms, [d](double k) { return (d / 2 + k) / (k + 1); });
}

at::Tensor random_walk_coefficients(int64_t terms, double p) {
  return by_ratio("random_walk_coefficients", "p", p, terms, [p](double k) { return (p / 2 - k) / (k + 1); });
}

at::Tensor cosine_coefficients(int64_t terms) {
  // cos x + sin x = Σ ±x^k/k!, signs + + − −.
  at::Tensor alpha = by_ratio("cosine_coefficients", "terms", 1, terms, [](double k) { return 1 / (k + 1); });
  double* value = alpha.mutable_data_ptr<double>();
  for (int64_t k = 0; k < terms; ++k) value[k] *= k % 4 < 2 ? 1 : -1;
  return deconvolve(alpha);
}

at::Tensor convolve(const at::Tensor& f, int64_t factors, std::optional<int64_t> terms) {
  check_series("convolve", "f", f, factors);
  const int64_t length = terms.value_or(f.size(-1));
  check_terms("convolve", length);
  if (f.size(-1) == 0 || length == 0) {
    auto shape = f.sizes().vec();
    shape.back() = length;
    return at::zeros(shape, f.options().requires_grad(false));
  }
  at::Tensor alpha = product(f, at::ones({1}, f.options().requires_grad(false)), length);
  for (int64_t i = 1; i < factors; ++i) alpha = product(f, alpha, length);
  return alpha;
}

at::Tensor deconvolve(const at::Tensor& alpha, int64_t factors) {
  check_series("deconvolve", "alpha", alpha, factors);
  const int64_t terms = alpha.size(-1);
  if (terms == 0) return alpha;
  const at::Tensor first = alpha.select(-1, 0);
  // On a GPU the check would synchronise with the device; f is NaN in that case.
  TORCH_CHECK(!alpha.is_cpu() || (first > 0).all().item<bool>(),
              "deconvolve: alpha must begin with a positive coefficient, got ", first.min().item<double>(),
              "; a mask with alpha_0 <= 0 is not a product of equal factors");
  // f = α^r solves α f' = r α' f, which gives k α_0 f_k = Σ_{j=1..k} (rj − k + j) α_j f_{k−j}.
  const double r = 1.0 / static_cast<double>(factors);
  std::vector<at::Tensor> f{first.pow(r)};
  for (int64_t k = 1; k < terms; ++k) {
    const at::Tensor j = at::arange(1, k + 1, alpha.options().requires_grad(false));
    const at::Tensor earlier = at::stack(f, -1).flip(-1);
    const at::Tensor sum = ((j * (r + 1) - static_cast<double>(k)) * alpha.narrow(-1, 1, k) * earlier).sum(-1);
    f.push_back(sum / (first * static_cast<double>(k)));
  }
  return at::stack(f, -1);
}

}  // namespace topomask
