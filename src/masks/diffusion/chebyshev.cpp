#include "masks/diffusion/chebyshev.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include "core/column_strips.h"
#include "core/parallel.h"
#include "core/recycled.h"
#include "masks/diffusion/chebyshev_kernel.h"

namespace topomask {
namespace {

/// Clenshaw: b_k = c_k x + 2B b_{k+1} − b_{k+2} from the top down, b_K = c_K x; the sum is c₀x + B b₁ − b₂. The two
/// steps that meet b_K take it as a multiple of x, so that it is never written.
template <class T>
void run(const GeneratorMatrix& matrix, const Spectrum& spectrum, const std::vector<std::vector<double>>& series,
         const at::Tensor& x, const at::Tensor& y) {
  const int64_t nodes = x.size(2), heads = x.size(1);
  const at::Tensor values = matrix.edges.values.contiguous(), diagonal = matrix.diagonal.contiguous();
  const double centre = (spectrum.upper + spectrum.lower) / 2, halfwidth = (spectrum.upper - spectrum.lower) / 2;
  for_column_strips<T>(x, y, 1, [&](const ColumnStrip<T>& strip) {
    const std::vector<double>& c = series[strip.slice % heads];
    const auto degree = static_cast<int64_t>(c.size()) - 1;
    if (degree == 0) {
      for (int64_t e = 0; e < nodes * strip.width; ++e) strip.y[e] = static_cast<T>(c[0]) * strip.x[e];
      return;
    }
    ClenshawArgs<T> args{};
    args.offsets = matrix.edges.pattern->offsets().const_data_ptr<int64_t>();
    args.columns = matrix.edges.pattern->columns().const_data_ptr<int32_t>();
    args.values = values.const_data_ptr<T>();
    args.diagonal = diagonal.const_data_ptr<T>();
    args.shift = static_cast<T>(centre);
    args.x = strip.x;
    args.width = strip.width;
    for (int64_t k = degree - 1; k >= 0; --k) {
      const int64_t step = degree - k;
      args.scale = static_cast<T>((k == 0 ? 1 : 2) / halfwidth * (step == 1 ? c[degree] : 1));
      args.coefficient = static_cast<T>(step == 2 ? c[k] - c[degree] : c[k]);
      args.current = step == 1 ? strip.x : args.out;
      args.out = k % 2 == 0 ? strip.y : strip.scratch;  // the last one is y
      args.previous = step <= 2 ? nullptr : args.out;
      for_row_ranges(args.offsets, nodes, 1, strip.width,
                     [&](int64_t, int64_t begin, int64_t end) { clenshaw_rows(args, begin, end); });
    }
  });
}

}  // namespace

std::vector<double> scaled_bessel(double z) {
  // e^{−z}I_k(z) is the probability that the difference of two Poisson variables of mean z/2 is k: variance z, and
  // Bernstein's inequality bounds the tail by exp(−k²/(2z + 2k/3)).
  constexpr double kLogTail = 46;  // e^−46 = 1e-20
  const double last = kLogTail / 3 + std::sqrt(kLogTail * kLogTail / 9 + 2 * kLogTail * z);
  TORCH_CHECK(last < 1e6, "diffusion_mask: lambda times the width of the spectrum must be below 1e10, got ", 2 * z);
  if (z < 1e-20) return {1.0};
  // Miller: I_{k−1} = I_{k+1} + (2k/z) I_k is stable downwards; the scale comes from the sum.
  std::vector<double> terms(static_cast<size_t>(last) + 2, 0.0);
  terms.back() = 1e-300;
  double sum = 2 * terms.back(), above = 0;
  for (size_t k = terms.size() - 1; k > 0; --k) {
    terms[k - 1] = above + 2 * static_cast<double>(k) / z * terms[k];
    above = terms[k];
    sum += (k == 1 ? 1 : 2) * terms[k - 1];
    if (terms[k - 1] > 1e200) {
      for (size_t j = k - 1; j < terms.size(); ++j) terms[j] *= 1e-250;
      sum *= 1e-250;
      above *= 1e-250;
    }
  }
  for (double& term : terms) term /= sum;
  return terms;
}

std::vector<double> chebyshev_coefficients(double lambda, const Spectrum& spectrum, double tolerance) {
  const std::vector<double> terms = scaled_bessel(lambda * (spectrum.upper - spectrum.lower) / 2);
  // Errors add up to the tail of the terms, relative to exp(−λ·lower); the norm may be as small as exp(−λ·lowest).
  const double allowed = tolerance * std::exp(-lambda * (spectrum.lowest - spectrum.lower));
  size_t degree = terms.size() - 1;
  for (double tail = 0; degree > 0 && tail + 2 * terms[degree] <= allowed; --degree) tail += 2 * terms[degree];
  std::vector<double> coefficients(degree + 1);
  for (size_t k = 0; k <= degree; ++k) {
    const double sign = k % 2 == 0 ? 1 : -1;
    coefficients[k] = sign * (k == 0 ? 1 : 2) * terms[k] * std::exp(-lambda * spectrum.lower);
  }
  return coefficients;
}

at::Tensor coefficient_table(const std::vector<std::vector<double>>& series, const at::Tensor& x) {
  size_t terms = 1;
  for (const auto& c : series) terms = std::max(terms, c.size());
  at::Tensor table = at::zeros({static_cast<int64_t>(terms), static_cast<int64_t>(series.size())}, at::kDouble);
  for (size_t h = 0; h < series.size(); ++h) {
    for (size_t k = 0; k < series[h].size(); ++k) table[k][h].fill_(series[h][k]);
  }
  return table.to(x.options()).view({static_cast<int64_t>(terms), 1, -1, 1, 1});
}

namespace {

/// The same recurrence by whole products, where there is no kernel of our own.
at::Tensor by_products(const GeneratorMatrix& matrix, const Spectrum& spectrum,
                       const std::vector<std::vector<double>>& series, const at::Tensor& x) {
  const double centre = (spectrum.upper + spectrum.lower) / 2, halfwidth = (spectrum.upper - spectrum.lower) / 2;
  const at::Tensor c = coefficient_table(series, x);
  const auto scaled = [&](const at::Tensor& b) { return matrix.times(b).sub_(b, centre).div_(halfwidth); };
  at::Tensor next, after;  // b_{k+1} and b_{k+2}
  for (int64_t k = c.size(0) - 1; k >= 0; --k) {
    at::Tensor b = x * c[k];
    if (next.defined()) b.add_(scaled(next), k == 0 ? 1 : 2);
    if (after.defined()) b.sub_(after);
    after = next;
    next = b;
  }
  return next;
}

}  // namespace

at::Tensor chebyshev_product(const GeneratorMatrix& matrix, const Spectrum& spectrum,
                             const std::vector<std::vector<double>>& series, const at::Tensor& x) {
  if (!x.is_cpu()) return by_products(matrix, spectrum, series, x);
  const at::Tensor y = recycled_empty(x.sizes(), x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "chebyshev", [&] { run<scalar_t>(matrix, spectrum, series, x, y); });
  return y;
}

}  // namespace topomask
