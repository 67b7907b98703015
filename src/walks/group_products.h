#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "walks/step_kernel.h"

namespace topomask {

/// G[t, u] = Σ_k ⟨R_t^k, R_u^k⟩ of one row after the other, over its independent groups k of walkers.
template <class T>
class GroupProducts {
 public:
  /// Visits come by hop, and by walker inside a hop.
  void add(uint32_t group, uint32_t column, uint32_t hop, T load) { visits_.push_back({group, column, hop, load}); }

  /// G[t, u] of earlier groups of this row.
  void add_product(uint32_t t, uint32_t u, T value);

  /// Ends the row: appends its entries t ≤ u, by t and then u, to those of the rows before. Returns their number.
  int64_t finish_row();

  /// Takes the last `count` entries, those of the row that was ended last, back as products of earlier groups.
  void reopen_row(int64_t count);

  void clear();                                               ///< forgets the rows before
  const std::vector<int16_t>& hops() const { return hops_; }  ///< t, u, t, u, …
  const std::vector<T>& values() const { return values_; }

 private:
  struct Visit {
    uint32_t group, column, hop;
    T load;
  };
  void sort_visits();
  void grow();

  std::vector<Visit> visits_, sorted_;
  std::vector<size_t> ends_;
  // A hash table of the row's (t, u): the key plus one, and the place among the sums.
  std::vector<uint64_t> table_ = std::vector<uint64_t>(256);
  std::vector<uint32_t> keys_;
  std::vector<T> sums_;
  std::vector<uint64_t> order_;
  std::vector<int16_t> hops_;
  std::vector<T> values_;
};

}  // namespace topomask
