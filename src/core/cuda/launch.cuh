#pragma once

#include <type_traits>

#include "core/cuda/row_group.cuh"

// How many threads a row gets, and how many blocks the rows take.

namespace topomask::cuda {

template <int n>
using Constant = std::integral_constant<int, n>;

/// Calls f(lanes, chunks), both compile-time, for the narrowest group that holds `width` values.
template <class T, class F>
void with_group(int width, const F& f) {
  const int packets = (width + Packet<T>::kSize - 1) / Packet<T>::kSize;
  if (packets <= 8) return f(Constant<8>{}, Constant<1>{});
  if (packets <= 16) return f(Constant<16>{}, Constant<1>{});
  if (packets <= 32) return f(Constant<32>{}, Constant<1>{});
  if (packets <= 64) return f(Constant<32>{}, Constant<2>{});
  f(Constant<32>{}, Constant<4>{});
}

inline unsigned blocks(int64_t groups, int lanes) {
  const int64_t per_block = kThreads / lanes;
  return static_cast<unsigned>((groups + per_block - 1) / per_block);
}

}  // namespace topomask::cuda
