#include "walks/row_worker.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/simd.h"

namespace topomask {
namespace {

/// Walkers of a batch: enough for vectors and for overlapping their cache misses, few enough for the first two caches.
constexpr int64_t kBatchWalkers = 512;

}  // namespace

template <class T>
RowWorker<T>::RowWorker(const TableSource& source, BatchFiller<T> fill) : source_(source), fill_(std::move(fill)) {
  if (!source.earlier) return;
  const WalkTable& table = *source.earlier;
  earlier_ = {.offsets = table.offsets().const_data_ptr<int64_t>(),
              .columns = table.columns().const_data_ptr<int32_t>(),
              .hops = table.hops().const_data_ptr<int16_t>(),
              .loads = table.loads().template const_data_ptr<T>(),
              .counts = table.counts().const_data_ptr<int32_t>()};
  earlier_first_.assign(static_cast<size_t>(table.max_hops() + 1), -1);
}

template <class T>
void RowWorker<T>::run(int64_t begin, int64_t end) {
  const int64_t rows = std::max<int64_t>(0, end - begin);
  triples = entries = 0;
  for (auto* counts : {&row_triples, &row_entries, &row_products}) counts->resize(static_cast<size_t>(rows));
  products.clear();
  const int64_t batch_rows = std::max<int64_t>(1, kBatchWalkers / std::max<int64_t>(1, source_.walkers));
  starts_.resize(static_cast<size_t>(batch_rows));
  for (int64_t first = begin; first < end; first += batch_rows) {
    const int64_t count = std::min(batch_rows, end - first);
    if (source_.starts) {
      std::copy_n(source_.starts + first, count, starts_.begin());
    } else {
      std::iota(starts_.begin(), starts_.begin() + count, static_cast<uint32_t>(first));
    }
    fill_(starts_.data(), count, batch_);
    collect(first - begin, count);
    if (source_.group > 0) multiply(first - begin, count);
  }
}

template <class T>
void RowWorker<T>::collect(int64_t row, int64_t rows) {
  int64_t earlier = 0, longest_earlier = 0;
  for (int64_t r = 0; r < rows && source_.earlier; ++r) {
    const int64_t length = earlier_.offsets[starts_[r] + 1] - earlier_.offsets[starts_[r]];
    earlier += length;
    longest_earlier = std::max(longest_earlier, length);
  }
  reserve_output(batch_.visits() + earlier);
  earlier_next_.resize(std::max(earlier_next_.size(), static_cast<size_t>(longest_earlier)));
  earlier_.first = earlier_first_.data();
  earlier_.next = earlier_next_.data();
  const int64_t hops_here = batch_.hops();
  const int64_t longest = std::min(batch_.visits(), source_.walkers * hops_here) + longest_earlier + 1;
  cursor_.assign(batch_.first(), batch_.first() + hops_here);
  collect_rows(CollectArgs<T>{.visits = batch_.at(0),
                              .ends = batch_.first() + 1,
                              .cursor = cursor_.data(),
                              .hops = hops_here,
                              .starts = starts_.data(),
                              .merged_starts = source_.unit_starts ? source_.walkers : 0,
                              .earlier = earlier_,
                              .work = workspace(longest),
                              .columns = columns.data(),
                              .hop = hops.data(),
                              .loads = loads.data(),
                              .counts = counts.data(),
                              .entry_columns = entry_columns.data(),
                              .entry_ends = entry_ends.data(),
                              .row_triples = row_triples.data() + row,
                              .row_entries = row_entries.data() + row,
                              .triples = &triples,
                              .entries = &entries},
               0, rows);
}

template <class T>
void RowWorker<T>::multiply(int64_t row, int64_t rows) {
  cursor_.assign(batch_.first(), batch_.first() + batch_.hops());
  const Walkers<T> visits = batch_.at(0);
  for (int64_t r = 0; r < rows; ++r) {
    if (source_.earlier) add_earlier_products(starts_[r]);
    for (int64_t hop = 0; hop < batch_.hops(); ++hop) {
      int64_t& v = cursor_[hop];
      for (; v < batch_.first()[hop + 1] && visits.start[v] == starts_[r]; ++v) {
        const auto group = (visits.number[v] - source_.first_walker) / source_.group;
        products.add(static_cast<uint32_t>(group), visits.position[v], static_cast<uint32_t>(hop), visits.load[v]);
      }
    }
    row_products[row + r] = products.finish_row();
  }
}

template <class T>
void RowWorker<T>::add_earlier_products(int64_t row) {
  const WalkTable& table = *source_.earlier;
  const int64_t* offsets = table.product_offsets().const_data_ptr<int64_t>();
  const int16_t* hops_of = table.product_hops().template const_data_ptr<int16_t>();
  const T* value = table.product_values().template const_data_ptr<T>();
  for (int64_t p = offsets[row]; p < offsets[row + 1]; ++p) {
    products.add_product(static_cast<uint32_t>(hops_of[2 * p]), static_cast<uint32_t>(hops_of[2 * p + 1]), value[p]);
  }
}

template <class T>
void RowWorker<T>::reserve_output(int64_t more) {
  const auto needed = static_cast<size_t>(triples + more);
  if (columns.size() >= needed) return;
  const size_t size = needed + needed / 2;
  for (auto* array : {&columns, &counts, &entry_columns}) array->resize(size);
  hops.resize(size);
  loads.resize(size);
  entry_ends.resize(size);
}

template <class T>
CollectWorkspace<T> RowWorker<T>::workspace(int64_t longest) {
  const auto size = static_cast<size_t>(longest + kWidthUnit);
  if (visits_.size() < size) {
    visits_.resize(size);
    distinct_.resize(size);
    column_.resize(size);
    rank_.resize(size);
    scratch_.resize(size);
  }
  const int bits = std::max(6, static_cast<int>(std::bit_width(static_cast<uint64_t>(2 * longest - 1))));
  if (table_.size() < size_t{1} << bits) table_.assign(size_t{1} << bits, 0);
  return {visits_.data(), distinct_.data(), column_.data(), rank_.data(), scratch_.data(), table_.data(), bits};
}

template class RowWorker<float>;
template class RowWorker<double>;

}  // namespace topomask
