#include "masks/forest/table/hankel_fft.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/library_tasks.h"

namespace topomask {
namespace {

/// In multiply-adds of the direct product, measured: per element and level of the transforms, and per call.
constexpr double kElementWork = 6, kCallWork = 20000;

/// Columns per call: a fixed number, as the library may round differently for others.
constexpr int64_t kColumns = 8;

/// Calls f(first, count) for groups of columns, from several threads.
template <class F>
void for_columns(int64_t columns, const F& f) {
  for_library_tasks((columns + kColumns - 1) / kColumns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i * kColumns, std::min(kColumns, columns - i * kColumns));
  });
}

at::Tensor as_index(std::span<const int32_t> depth) {
  return at::from_blob(const_cast<int32_t*>(depth.data()), {static_cast<int64_t>(depth.size())}, at::kInt);
}

/// The spectra of some columns of rows at the given depths: [width, length/2 + 1].
at::Tensor transformed(const at::Tensor& index, const at::Tensor& rows, int64_t length) {
  at::Tensor spread = at::zeros({rows.size(1), length}, rows.options());
  spread.index_copy_(1, index, rows.t());
  return at::fft_rfft(spread, length);
}

}  // namespace

int64_t hankel_fft_length(int64_t deepest) {
  const auto least = static_cast<uint64_t>(2 * deepest + 1);
  const auto power = static_cast<int64_t>(std::bit_ceil(least));
  for (const int64_t length : {power / 8 * 5, power / 4 * 3}) {
    if (length >= static_cast<int64_t>(least)) return length;
  }
  return power;
}

double fft_work(int64_t deepest) {
  const auto length = static_cast<double>(hankel_fft_length(deepest));
  return kElementWork * length * std::log2(length) + kCallWork;
}

bool fft_is_faster(double pairs, int64_t deepest) {
  return pairs > fft_work(deepest);
}

const at::Tensor& HankelFft::spectrum(int64_t length) {
  at::Tensor& kept = spectra_[length];
  if (!kept.defined()) {
    for_columns(1, [&](int64_t, int64_t) { kept = at::fft_rfft(table_.slice(0, 0, length), length); });
  }
  return kept;
}

void HankelFft::multiply(std::span<const int32_t> depth, const at::Tensor& sums, const at::Tensor& products) {
  const int64_t length = hankel_fft_length(depth.back());
  const at::Tensor index = as_index(depth).to(at::kLong);
  const at::Tensor& table = spectrum(length);
  for_columns(sums.size(1), [&](int64_t first, int64_t count) {
    const at::Tensor spectra = transformed(index, sums.narrow(1, first, count), length);
    const at::Tensor correlation = at::fft_irfft(spectra.conj() * table, length);
    products.narrow(1, first, count).copy_(correlation.index_select(1, index).t());
  });
}

at::Tensor hankel_fft_gradient(std::span<const int32_t> depth, const at::Tensor& g, const at::Tensor& x) {
  const int64_t length = hankel_fft_length(depth.back());
  const at::Tensor index = as_index(depth).to(at::kLong);
  std::vector<at::Tensor> sums((x.size(1) + kColumns - 1) / kColumns);
  for_columns(x.size(1), [&](int64_t first, int64_t count) {
    const at::Tensor product =
        transformed(index, g.narrow(1, first, count), length) * transformed(index, x.narrow(1, first, count), length);
    sums[first / kColumns] = at::fft_irfft(product.sum(0), length).to(at::kDouble);
  });
  for (size_t i = 1; i < sums.size(); ++i) sums[0] = sums[0] + sums[i];
  return sums[0].slice(0, 0, 2 * depth.back() + 1);
}

}  // namespace topomask
