#pragma once

#include <cstdint>

// Passes over the lists of hop pairs on the CPU, over raw pointers.

namespace topomask::ops::hop_pairs {

/// The heads that go through a list together: those of a block lie side by side for each pair.
inline constexpr int64_t kHeadBlock = 4;

template <class T>
struct ListArgs {
  const int32_t* offsets;
  const uint8_t* pairs;
  const T* sums;
  int64_t stride;  ///< from one head to the next among values and gradients
  int64_t heads;   ///< of this block
};

/// values[h·stride + p] = Σ g[pair][h]·sum for the entries p of a range; g [pairs, kHeadBlock].
template <class T>
void pair_values(const ListArgs<T>& args, const T* g, T* values, int64_t begin, int64_t end);

/// total[pair][h] += Σ grad[h·stride + p]·sum over them; total [pairs, kHeadBlock].
template <class T>
void pair_gradients(const ListArgs<T>& args, const T* grad, double* total, int64_t begin, int64_t end);

}  // namespace topomask::ops::hop_pairs
