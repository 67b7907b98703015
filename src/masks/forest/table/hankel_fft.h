#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>

namespace topomask {

/// The length of the transforms for depths up to `deepest`: at least 2·deepest + 1, and fast.
int64_t hankel_fft_length(int64_t deepest);

/// Whether transforms are faster than `pairs` multiply-adds per column.
bool fft_is_faster(double pairs, int64_t deepest);
/// Multiply-adds that take as long as the transforms, per column.
double fft_work(int64_t deepest);

/// Hankel products with one table, by FFT: Σ_t f[s+t] a[t] is a correlation. Spectra of the table are kept by length.
class HankelFft {
 public:
  explicit HankelFft(at::Tensor table) : table_(std::move(table)) {}  ///< [K]

  /// products[s] = Σ_t f[depth[s] + depth[t]] sums[t], rows [count, width]. Depths are below K.
  void multiply(std::span<const int32_t> depth, const at::Tensor& sums, const at::Tensor& products);

 private:
  const at::Tensor& spectrum(int64_t length);

  at::Tensor table_;
  std::map<int64_t, at::Tensor> spectra_;
};

/// Σ_{s+t=k} ⟨g[s], x[t]⟩ for k = 0 … 2·deepest: float64. Rows g, x [count, width] at those depths.
at::Tensor hankel_fft_gradient(std::span<const int32_t> depth, const at::Tensor& g, const at::Tensor& x);

}  // namespace topomask
