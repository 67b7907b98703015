#include "walks/row_worker.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/simd.h"

namespace topomask {
namespace {

/// Walkers of a batch: enough for vectors and for overlapping their cache misses, few enough for the first two caches.
constexpr int64_t kBatchWalkers = 512;

/// Visits of a row that are in memory at once, about; or as many as the row has triples, so that merging the parts
/// takes no longer than making them.
constexpr int64_t kPartVisits = 1 << 18;

}  // namespace

template <class T>
RowWorker<T>::RowWorker(const TableSource& source, BatchFiller<T> fill) : source_(source), fill_(std::move(fill)) {
  if (!source.earlier) return;
  const WalkTable& table = *source.earlier;
  table_walks_ = {.offsets = table.offsets().const_data_ptr<int64_t>(),
                  .columns = table.columns().const_data_ptr<int32_t>(),
                  .hops = table.hops().const_data_ptr<int16_t>(),
                  .loads = table.loads().template const_data_ptr<T>(),
                  .counts = table.counts().const_data_ptr<int32_t>()};
  earlier_ = table_walks_;
  earlier_first_.assign(static_cast<size_t>(table.max_hops() + 1), -1);
}

template <class T>
void RowWorker<T>::run(int64_t begin, int64_t end) {
  const int64_t rows = std::max<int64_t>(0, end - begin);
  triples = entries = 0;
  for (auto* counts : {&row_triples, &row_entries, &row_products}) counts->resize(static_cast<size_t>(rows));
  products.clear();
  const int64_t at_once = part_walkers(kPartVisits);
  const int64_t batch_rows =
      std::max<int64_t>(1, std::min(kBatchWalkers, at_once) / std::max<int64_t>(1, source_.walkers));
  starts_.resize(static_cast<size_t>(batch_rows));
  for (int64_t first = begin; first < end; first += batch_rows) {
    const int64_t count = std::min(batch_rows, end - first);
    take_starts(first, count);
    if (source_.walkers > at_once) {
      run_in_parts(first - begin);
      continue;
    }
    fill_(starts_.data(), count, {0, source_.walkers}, batch_);
    collect(first - begin, count, source_.walkers);
    if (source_.group > 0) multiply(first - begin, count);
  }
}

template <class T>
void RowWorker<T>::take_starts(int64_t first, int64_t count) {
  if (source_.starts) {
    std::copy_n(source_.starts + first, count, starts_.begin());
  } else {
    std::iota(starts_.begin(), starts_.begin() + count, static_cast<uint32_t>(first));
  }
}

/// Walkers that make about so many visits, as many as may come together.
template <class T>
int64_t RowWorker<T>::part_walkers(int64_t visits) const {
  if (source_.indivisible == 0) return source_.walkers;
  const double per_walker = 1 + source_.visits_per_row / static_cast<double>(std::max<int64_t>(1, source_.walkers));
  const auto walkers = static_cast<int64_t>(static_cast<double>(visits) / per_walker);
  return std::max<int64_t>(1, walkers / source_.indivisible) * source_.indivisible;
}

template <class T>
void RowWorker<T>::run_in_parts(int64_t row) {
  for (int64_t first = 0, last = 0; first < source_.walkers; first = last) {
    if (first > 0) reopen_row(row);
    last = std::min(source_.walkers, first + part_walkers(std::max(kPartVisits, part_offsets_[1])));
    fill_(starts_.data(), 1, {first, last}, batch_);
    collect(row, 1, last - first);
    if (source_.group > 0) multiply(row, 1);
  }
  part_offsets_[1] = 0;
  earlier_ = table_walks_;
}

template <class T>
void RowWorker<T>::reopen_row(int64_t row) {
  const int64_t count = row_triples[row];
  triples -= count;
  entries -= row_entries[row];
  const auto keep = [&](auto& to, const auto& from) {
    to.assign(from.begin() + triples, from.begin() + triples + count);
  };
  keep(part_columns_, columns);
  keep(part_hops_, hops);
  keep(part_loads_, loads);
  keep(part_counts_, counts);
  part_offsets_[1] = count;
  earlier_ = {.offsets = part_offsets_,
              .columns = part_columns_.data(),
              .hops = part_hops_.data(),
              .loads = part_loads_.data(),
              .counts = part_counts_.data(),
              .first_row = starts_[0]};
  earlier_first_.resize(std::max(earlier_first_.size(), static_cast<size_t>(batch_.hops())), -1);
  if (source_.group > 0) products.reopen_row(row_products[row]);
}

template <class T>
void RowWorker<T>::collect(int64_t row, int64_t rows, int64_t walkers) {
  int64_t earlier = 0, longest_earlier = 0;
  for (int64_t r = 0; r < rows && earlier_.offsets; ++r) {
    const int64_t* bounds = earlier_.offsets + (starts_[r] - earlier_.first_row);
    const int64_t length = bounds[1] - bounds[0];
    earlier += length;
    longest_earlier = std::max(longest_earlier, length);
  }
  reserve_output(batch_.visits() + earlier);
  earlier_next_.resize(std::max(earlier_next_.size(), static_cast<size_t>(longest_earlier)));
  earlier_.first = earlier_first_.data();
  earlier_.next = earlier_next_.data();
  const int64_t hops_here = batch_.hops();
  const int64_t longest = std::min(batch_.visits(), walkers * hops_here) + longest_earlier + 1;
  cursor_.assign(batch_.first(), batch_.first() + hops_here);
  collect_rows(CollectArgs<T>{.visits = batch_.at(0),
                              .ends = batch_.first() + 1,
                              .cursor = cursor_.data(),
                              .hops = hops_here,
                              .starts = starts_.data(),
                              .merged_starts = source_.unit_starts ? walkers : 0,
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
  const uint32_t first_walker = batch_.visits() > 0 ? visits.number[0] : 0;  // a batch holds whole groups
  for (int64_t r = 0; r < rows; ++r) {
    if (source_.earlier && earlier_.offsets == table_walks_.offsets) add_earlier_products(starts_[r]);
    for (int64_t hop = 0; hop < batch_.hops(); ++hop) {
      int64_t& v = cursor_[hop];
      for (; v < batch_.first()[hop + 1] && visits.start[v] == starts_[r]; ++v) {
        const uint32_t group = (visits.number[v] - first_walker) / static_cast<uint32_t>(source_.group);
        products.add(group, visits.position[v], static_cast<uint32_t>(hop), visits.load[v]);
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
