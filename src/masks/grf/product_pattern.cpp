#include "masks/grf/product_pattern.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <bit>
#include <mutex>
#include <span>

#include "core/parallel.h"

namespace topomask {
namespace {

/// Ascending lists of columns in, their union out, ascending; reuses its workspace from row to row.
class Union {
 public:
  explicit Union(int64_t columns) : words_(columns / kWord + 1), summary_(columns / (kWord * kWord) + 1) {}

  void add(std::span<const int32_t> columns) {
    if (columns.empty()) return;
    lists_.push_back(columns);
    total_ += static_cast<int64_t>(columns.size());
    low_ = std::min(low_, columns.front());
    high_ = std::max(high_, columns.back());
  }

  int64_t total() const { return total_; }  ///< columns added, repeated ones too

  /// Appends the union to `out` and starts anew.
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

/// The rows of a pattern, or of its transpose.
struct Rows {
  Rows(const at::Tensor& offsets, const at::Tensor& columns)
      : offset(offsets.const_data_ptr<int64_t>()), column(columns.const_data_ptr<int32_t>()) {}
  Rows(const SparsePattern& pattern, bool transposed)
      : Rows(transposed ? pattern.transposed().offsets : pattern.offsets(),
             transposed ? pattern.transposed().columns : pattern.columns()) {}

  std::span<const int32_t> operator[](int64_t i) const { return {column + offset[i], column + offset[i + 1]}; }

  const int64_t* offset;
  const int32_t* column;
};

struct Chunk {
  int64_t begin = 0;
  std::vector<int32_t> columns;
};

using TwoTensors = std::tuple<at::Tensor, at::Tensor>;

/// One parallel pass over the rows of A, each thread into a list of its own; then the lists are laid end to end.
TwoTensors product_pattern_cpu(const at::Tensor& a_offsets, const at::Tensor& a_columns, const at::Tensor& bt_offsets,
                               const at::Tensor& bt_columns, int64_t cols) {
  const Rows rows(a_offsets, a_columns), columns_of_b(bt_offsets, bt_columns);
  const int64_t count = a_offsets.size(0) - 1;
  at::Tensor offsets = at::zeros({count + 1}, at::kLong);
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  std::vector<Chunk> chunks;
  std::mutex mutex;
  for_row_ranges(rows.offset, count, 1, 16, [&](int64_t, int64_t begin, int64_t end) {
    Chunk chunk{begin, {}};
    Union row(cols);
    for (int64_t i = begin; i < end; ++i) {
      const size_t before = chunk.columns.size();
      for (int32_t c : rows[i]) row.add(columns_of_b[c]);
      row.take(chunk.columns);
      offset[i + 1] = static_cast<int64_t>(chunk.columns.size() - before);
    }
    const std::lock_guard lock(mutex);
    chunks.push_back(std::move(chunk));
  });
  for (int64_t i = 0; i < count; ++i) offset[i + 1] += offset[i];
  at::Tensor columns = at::empty({offset[count]}, at::kInt);
  int32_t* column = columns.mutable_data_ptr<int32_t>();
  at::parallel_for(0, static_cast<int64_t>(chunks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      std::copy(chunks[c].columns.begin(), chunks[c].columns.end(), column + offset[chunks[c].begin]);
    }
  });
  return {offsets, columns};
}

PatternPtr build_product(const SparsePattern& a, const SparsePattern& b) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("topomask::product_pattern", "")
                             .typed<decltype(product_pattern_cpu)>();
  const SparsePattern::Transposed& bt = b.transposed();
  const auto [offsets, columns] = op.call(a.offsets(), a.columns(), bt.offsets, bt.columns, b.rows());
  return std::make_shared<SparsePattern>(a.rows(), b.rows(), offsets, columns);
}

}  // namespace

PatternPtr SparsePattern::known_product(const PatternPtr& other) const {
  const std::lock_guard lock(products_mutex_);
  for (const Product& product : products_) {
    if (product.other.lock() == other) return product.pattern;
  }
  return nullptr;
}

PatternPtr SparsePattern::product(const PatternPtr& other) const {
  TORCH_CHECK(other != nullptr && other->cols() == cols_, "SparsePattern::product: other must have ", cols_,
              " columns, got ", other ? std::to_string(other->cols()) : "none");
  if (PatternPtr known = known_product(other)) return known;
  const c10::InferenceMode ordinary(false);              // what is kept may later be saved for a backward pass
  const PatternPtr made = build_product(*this, *other);  // outside the lock: it takes long and all threads
  const std::lock_guard lock(products_mutex_);
  std::erase_if(products_, [&](const Product& product) { return product.other.expired(); });
  products_.push_back({other, made});
  return made;
}

ProductEstimate estimate_product(const std::vector<PatternPtr>& given) {
  std::vector<PatternPtr> factors;
  for (const PatternPtr& factor : given) factors.push_back(factor->to(at::kCPU));
  const int64_t rows = factors.front()->rows();
  if (rows == 0) return {};
  constexpr int64_t kSamples = 256;
  const int64_t samples = std::min(rows, kSamples);
  std::vector<Rows> chain;
  std::vector<Union> unions;
  for (size_t f = 0; f < factors.size(); ++f) {
    chain.emplace_back(*factors[f], f % 2 == 1);
    unions.emplace_back(f % 2 == 1 ? factors[f]->rows() : factors[f]->cols());
  }
  double entries = 0, work = 0;
  std::vector<int32_t> reached, next;
  for (int64_t s = 0; s < samples; ++s) {
    reached.assign(1, static_cast<int32_t>((2 * s + 1) * rows / (2 * samples)));
    for (size_t f = 0; f < chain.size(); ++f) {
      for (int32_t i : reached) unions[f].add(chain[f][i]);
      if (f > 0) work += static_cast<double>(unions[f].total());
      next.clear();
      unions[f].take(next);
      std::swap(reached, next);
    }
    entries += static_cast<double>(reached.size());
  }
  const double scale = static_cast<double>(rows) / static_cast<double>(samples);
  return {entries * scale, work * scale};
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.set_python_module("topomask.fake");  // sizes depend on data: the fake kernel is there
  m.def(
      "product_pattern(Tensor a_offsets, Tensor a_columns, Tensor bt_offsets, Tensor bt_columns, int cols) -> (Tensor, "
      "Tensor)");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("product_pattern", product_pattern_cpu);
}

}  // namespace topomask
