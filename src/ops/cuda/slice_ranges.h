#pragma once

#include <cstdint>

namespace topomask::cuda {

/// The most blocks of a grid along y or z, where kernels have the slices (b, h), heads or clouds of their tensors.
inline constexpr int64_t kMostSlices = 65535;

/// f(first, count) for consecutive ranges of at most kMostSlices of `slices`: a launch each.
template <class F>
void for_slice_ranges(int64_t slices, const F& f) {
  for (int64_t first = 0; first < slices; first += kMostSlices) {
    const int64_t rest = slices - first;
    f(first, static_cast<unsigned>(rest < kMostSlices ? rest : kMostSlices));
  }
}

}  // namespace topomask::cuda
