#include "walks/table_builder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstring>

#include "core/progress_report.h"
#include "core/recycled.h"
#include "walks/growing_tensor.h"
#include "walks/row_worker.h"

namespace topomask {
namespace {

/// Per thread and wave: visits of about this many walks stay in the second and third cache.
constexpr double kWaveVisits = 1 << 19;
constexpr int64_t kMostWaveRows = 1 << 14;
constexpr int64_t kSampleRows = 1 << 10;

at::Tensor row_offsets(int64_t rows) {
  at::Tensor offsets = recycled_empty({rows + 1}, at::kLong);
  offsets.mutable_data_ptr<int64_t>()[0] = 0;
  return offsets;
}

/// The tensors of a table while it is built.
template <class T>
class Assembly {
 public:
  Assembly(int64_t rows, bool products)
      : rows_(rows), products_(products), offsets_(row_offsets(rows)), entry_offsets_(row_offsets(rows)) {
    if (products) product_offsets_ = row_offsets(rows);
    feature_offsets_.extend(1);
    feature_offsets_.data<int64_t>()[0] = 0;
  }

  /// Room for a table of rows like those that the worker made.
  void reserve(const RowWorker<T>& worker) {
    const double rows = static_cast<double>(rows_) / static_cast<double>(worker.row_triples.size());
    const auto expected = [&](size_t count) {
      return static_cast<int64_t>(1.05 * rows * static_cast<double>(count)) + 1;
    };
    for (GrowingTensor* tensor : {&columns_, &hops_, &loads_, &counts_}) tensor->reserve(expected(worker.triples));
    for (GrowingTensor* tensor : {&entry_columns_, &feature_offsets_}) tensor->reserve(expected(worker.entries));
    product_hops_.reserve(expected(worker.products.hops().size()));
    product_values_.reserve(expected(worker.products.values().size()));
  }

  /// Appends the rows that the workers made.
  void append(const std::vector<RowWorker<T>>& workers) {
    std::vector<Place> places;
    const Place before = end_;
    for (const RowWorker<T>& worker : workers) {
      places.push_back(end_);
      end_.row += static_cast<int64_t>(worker.row_triples.size());
      end_.triple += worker.triples;
      end_.entry += worker.entries;
      end_.product += static_cast<int64_t>(worker.products.values().size());
    }
    for (GrowingTensor* tensor : {&columns_, &hops_, &loads_, &counts_}) tensor->extend(end_.triple - before.triple);
    for (GrowingTensor* tensor : {&entry_columns_, &feature_offsets_}) tensor->extend(end_.entry - before.entry);
    product_hops_.extend(2 * (end_.product - before.product));
    product_values_.extend(end_.product - before.product);
    at::parallel_for(0, static_cast<int64_t>(workers.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) copy(workers[k], places[k]);
    });
  }

  WalkTable::Arrays finish(int64_t nodes) const {
    WalkTable::Arrays arrays{offsets_, columns_.finish(), hops_.finish(), loads_.finish(), counts_.finish()};
    if (products_) {
      arrays.product_offsets = product_offsets_;
      arrays.product_hops = product_hops_.finish().view({-1, 2});
      arrays.product_values = product_values_.finish();
    }
    arrays.pattern = std::make_shared<const SparsePattern>(rows_, nodes, entry_offsets_, entry_columns_.finish());
    arrays.feature_offsets = feature_offsets_.finish();
    return arrays;
  }

 private:
  struct Place {
    int64_t row = 0, triple = 0, entry = 0, product = 0;
  };

  static void accumulate(const at::Tensor& offsets, const std::vector<int64_t>& sizes, int64_t row, int64_t from) {
    int64_t* offset = offsets.mutable_data_ptr<int64_t>() + row + 1;
    for (size_t r = 0; r < sizes.size(); ++r) offset[r] = from += sizes[r];
  }

  template <class U>
  static void put(GrowingTensor& tensor, int64_t at, const std::vector<U>& from, int64_t count) {
    if (count > 0) std::memcpy(tensor.data<U>() + at, from.data(), static_cast<size_t>(count) * sizeof(U));
  }

  void copy(const RowWorker<T>& worker, const Place& at) {
    put(columns_, at.triple, worker.columns, worker.triples);
    put(hops_, at.triple, worker.hops, worker.triples);
    put(loads_, at.triple, worker.loads, worker.triples);
    put(counts_, at.triple, worker.counts, worker.triples);
    put(entry_columns_, at.entry, worker.entry_columns, worker.entries);
    int64_t* ends = feature_offsets_.data<int64_t>() + 1 + at.entry;
    for (int64_t e = 0; e < worker.entries; ++e) ends[e] = at.triple + worker.entry_ends[e];
    accumulate(offsets_, worker.row_triples, at.row, at.triple);
    accumulate(entry_offsets_, worker.row_entries, at.row, at.entry);
    if (!products_) return;
    const auto count = static_cast<int64_t>(worker.products.values().size());
    put(product_hops_, 2 * at.product, worker.products.hops(), 2 * count);
    put(product_values_, at.product, worker.products.values(), count);
    accumulate(product_offsets_, worker.row_products, at.row, at.product);
  }

  int64_t rows_;
  bool products_;
  Place end_;
  at::Tensor offsets_, entry_offsets_, product_offsets_;
  GrowingTensor columns_{at::kInt}, hops_{at::kShort}, loads_{c10::CppTypeToScalarType<T>::value}, counts_{at::kInt};
  GrowingTensor entry_columns_{at::kInt}, feature_offsets_{at::kLong};
  GrowingTensor product_hops_{at::kShort}, product_values_{c10::CppTypeToScalarType<T>::value};
};

/// A few rows from all over the table: those of the first wave may be unlike the others, as the rim of a grid is.
template <class T>
void reserve_by_sample(const TableSource& source, BatchFiller<T> fill, Assembly<T>& assembly) {
  std::vector<uint32_t> starts(kSampleRows);
  for (int64_t k = 0; k < kSampleRows; ++k) {
    const int64_t row = k * source.rows / kSampleRows;
    starts[k] = source.starts ? source.starts[row] : static_cast<uint32_t>(row);
  }
  TableSource sample = source;
  sample.rows = kSampleRows;
  sample.starts = starts.data();
  RowWorker<T> worker(sample, std::move(fill));
  worker.run(0, kSampleRows);
  assembly.reserve(worker);
}

}  // namespace

template <class T>
WalkTable::Arrays build_table(const TableSource& source, const std::function<BatchFiller<T>()>& make_filler) {
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), std::max<int64_t>(1, source.rows));
  const int64_t share = (source.rows + threads - 1) / threads;
  const auto by_visits = static_cast<int64_t>(kWaveVisits / source.visits_per_row) + 1;
  const int64_t step = std::max<int64_t>(1, std::min({share, by_visits, kMostWaveRows}));

  std::vector<RowWorker<T>> workers;
  for (int64_t k = 0; k < threads; ++k) workers.emplace_back(source, make_filler());
  Assembly<T> assembly(source.rows, source.group > 0);
  if (source.rows > 32 * kSampleRows) reserve_by_sample(source, make_filler(), assembly);
  for (int64_t first = 0; first < source.rows; first += step * threads) {
    at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        workers[k].run(std::min(source.rows, first + k * step), std::min(source.rows, first + (k + 1) * step));
      }
    });
    assembly.append(workers);
    report_progress("walks", std::min(source.rows, first + step * threads), source.rows);
  }
  return assembly.finish(source.nodes);
}

template WalkTable::Arrays build_table<float>(const TableSource&, const std::function<BatchFiller<float>()>&);
template WalkTable::Arrays build_table<double>(const TableSource&, const std::function<BatchFiller<double>()>&);

}  // namespace topomask
