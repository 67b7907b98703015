#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace topomask::ops {

/// Ascending lists of columns in, their union out, ascending; reuses its workspace from row to row.
class ColumnUnion {
 public:
  explicit ColumnUnion(int64_t columns) : words_(columns / kWord + 1), summary_(columns / (kWord * kWord) + 1) {}

  void add(std::span<const int32_t> columns) {
    if (columns.empty()) return;
    lists_.push_back(columns);
    total_ += static_cast<int64_t>(columns.size());
    low_ = std::min(low_, columns.front());
    high_ = std::max(high_, columns.back());
  }

  int64_t total() const { return total_; }  ///< columns added, repeated ones too

  /// Appends the union to `out` and starts again.
  void take(std::vector<int32_t>& out) {
    const int64_t groups = total_ == 0 ? 0 : high_ / (kWord * kWord) - low_ / (kWord * kWord) + 1;
    if (lists_.size() == 1) {
      out.insert(out.end(), lists_[0].begin(), lists_[0].end());
    } else if (total_ < kFew || groups > total_) {
      by_sorting(out);
    } else {
      by_bits(out, groups);
    }
    lists_.clear();
    total_ = 0;
    low_ = std::numeric_limits<int32_t>::max();
    high_ = -1;
  }

 private:
  static constexpr int64_t kWord = 64;
  static constexpr int64_t kFew = 64;  // below, sorting is faster

  void by_sorting(std::vector<int32_t>& out) {
    const auto start = static_cast<std::ptrdiff_t>(out.size());
    for (const auto& list : lists_) out.insert(out.end(), list.begin(), list.end());
    std::sort(out.begin() + start, out.end());
    out.erase(std::unique(out.begin() + start, out.end()), out.end());
  }

  /// A bit per column, and a bit per word of those that is not zero: reading them in order sorts.
  void by_bits(std::vector<int32_t>& out, int64_t groups) {
    for (const auto& list : lists_) {
      for (const int32_t place : list) {
        const auto column = static_cast<uint32_t>(place);
        words_[column / kWord] |= uint64_t{1} << (column % kWord);
        summary_[column / (kWord * kWord)] |= uint64_t{1} << (column / kWord % kWord);
      }
    }
    const int64_t first = low_ / (kWord * kWord);
    for (int64_t group = first; group < first + groups; ++group) {
      for (uint64_t& full = summary_[group]; full != 0; full &= full - 1) {
        const int64_t word = group * kWord + std::countr_zero(full);
        for (uint64_t& bits = words_[word]; bits != 0; bits &= bits - 1) {
          out.push_back(static_cast<int32_t>(word * kWord + std::countr_zero(bits)));
        }
      }
    }
  }

  std::vector<uint64_t> words_, summary_;
  std::vector<std::span<const int32_t>> lists_;
  int64_t total_ = 0;
  int32_t low_ = std::numeric_limits<int32_t>::max(), high_ = -1;
};

/// The rows of a CSR pattern on the CPU.
struct CsrRows {
  CsrRows(const at::Tensor& offsets, const at::Tensor& columns)
      : offset(offsets.const_data_ptr<int64_t>()), column(columns.const_data_ptr<int32_t>()) {}

  std::span<const int32_t> operator[](int64_t i) const { return {column + offset[i], column + offset[i + 1]}; }

  const int64_t* offset;
  const int32_t* column;
};

}  // namespace topomask::ops
