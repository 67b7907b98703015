#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <atomic>

#include "core/checks.h"
#include "ops/constant_offsets.h"
#include "ops/product_pattern/op.h"
#include "ops/row_tiles/op.h"
#include "sparse/hops.h"
#include "topomask/sparse.h"

namespace topomask {

namespace {

/// The first invalid row, or `rows`. The search runs on all threads; the error is composed afterwards, for that row
/// alone.
int64_t first_wrong_row(int64_t rows, int64_t cols, const int64_t* offset, const int32_t* column, int64_t entries) {
  std::atomic<int64_t> first = rows;
  at::parallel_for(0, rows, 8192, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      bool right = offset[i] >= 0 && offset[i] <= offset[i + 1] && offset[i + 1] <= entries;
      int64_t last = -1;
      for (int64_t e = offset[i]; right && e < offset[i + 1]; ++e) {
        right = column[e] > last && column[e] < cols;
        last = column[e];
      }
      if (right) continue;
      int64_t known = first.load();
      while (i < known && !first.compare_exchange_weak(known, i)) {
      }
      return;
    }
  });
  return first;
}

}  // namespace

SparsePattern::SparsePattern(int64_t rows, int64_t cols, at::Tensor offsets, at::Tensor columns)
    : rows_(rows), cols_(cols), offsets_(std::move(offsets)), columns_(std::move(columns)), hops_(make_hop_cache()) {
  constexpr int64_t kMaxIndex = std::numeric_limits<int32_t>::max();
  TORCH_CHECK(rows >= 0 && rows <= kMaxIndex && cols >= 0 && cols <= kMaxIndex,
              "SparsePattern: rows and cols must be in [0, 2^31-1], got ", rows, " and ", cols);
  TORCH_CHECK(offsets_.defined() && offsets_.scalar_type() == at::kLong && (offsets_.is_cpu() || offsets_.is_cuda()) &&
                  offsets_.dim() == 1 && offsets_.size(0) == rows + 1 && offsets_.is_contiguous(),
              "SparsePattern: offsets must be contiguous int64 [rows + 1 = ", rows + 1, "] on cpu or cuda, got ",
              describe(offsets_));
  TORCH_CHECK(columns_.defined() && columns_.scalar_type() == at::kInt && columns_.device() == offsets_.device() &&
                  columns_.dim() == 1 && columns_.is_contiguous(),
              "SparsePattern: columns must be contiguous int32 [entries] on ", offsets_.device(),
              " as offsets are, got ", describe(columns_));
  if (!columns_.is_cpu()) return;
  const int64_t* offset = offsets_.const_data_ptr<int64_t>();
  const int32_t* column = columns_.const_data_ptr<int32_t>();
  TORCH_CHECK(offset[0] == 0 && offset[rows] == columns_.size(0), "SparsePattern: offsets must run from 0 to ",
              columns_.size(0), " (the number of columns), got ", offset[0], " to ", offset[rows]);
  for (int64_t i = first_wrong_row(rows, cols, offset, column, columns_.size(0)); i < rows; ++i) {
    TORCH_CHECK(offset[i] <= offset[i + 1] && offset[i + 1] <= columns_.size(0),
                "SparsePattern: offsets must not decrease, got ", offset[i], " then ", offset[i + 1], " at row ", i);
    for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
      TORCH_CHECK(column[e] >= 0 && column[e] < cols, "SparsePattern: columns must be in [0, ", cols, "), got ",
                  column[e], " in row ", i);
      TORCH_CHECK(e == offset[i] || column[e - 1] < column[e], "SparsePattern: columns must ascend inside a row, got ",
                  column[e - (e > offset[i])], " then ", column[e], " in row ", i);
    }
  }
}

PatternPtr SparsePattern::to(at::Device device) const {
  if (device == this->device() || (device.type() == this->device().type() && !device.has_index())) {
    return shared_from_this();
  }
  if (origin_ && device == origin_->device()) return origin_;
  const std::lock_guard lock(copies_mutex_);
  for (const auto& copy : copies_) {
    const PatternPtr known = copy.lock();
    if (known && known->device().type() == device.type() && (!device.has_index() || known->device() == device)) {
      return known;
    }
  }
  const c10::InferenceMode ordinary(false);
  const auto made = std::make_shared<SparsePattern>(rows_, cols_, offsets_.to(device), columns_.to(device));
  made->origin_ = origin_ ? origin_ : shared_from_this();
  std::erase_if(copies_, [](const auto& copy) { return copy.expired(); });
  copies_.push_back(made);
  return made;
}

namespace {

/// A stable sort by column; no size is read back.
SparsePattern::Transposed transposed_by_sorting(const SparsePattern& pattern) {
  const auto [sorted, index] = pattern.columns().sort(/*stable=*/true, 0, /*descending=*/false);
  const at::Tensor first = at::arange(pattern.cols() + 1, sorted.options());
  const at::Tensor rows = at::repeat_interleave(at::arange(pattern.rows(), sorted.options()), pattern.offsets().diff(),
                                                std::nullopt, pattern.entries());
  return {at::searchsorted(sorted, first), rows.index_select(0, index), index};
}

}  // namespace

const SparsePattern::Transposed& SparsePattern::transposed() const {
  std::call_once(transposed_once_, [this] {
    const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
    if (!columns_.is_cpu()) {
      transposed_ = transposed_by_sorting(*this);
      for (const at::Tensor& constant : {offsets_, transposed_.offsets}) ops::ConstantOffsets::add(constant);
      return;
    }
    Transposed t{at::zeros({cols_ + 1}, at::kLong), at::empty({entries()}, at::kInt),
                 at::empty({entries()}, at::kLong)};
    const int64_t* offset = offsets_.const_data_ptr<int64_t>();
    const int32_t* column = columns_.const_data_ptr<int32_t>();
    int64_t* t_offset = t.offsets.mutable_data_ptr<int64_t>();
    int32_t* t_column = t.columns.mutable_data_ptr<int32_t>();
    int64_t* t_index = t.index.mutable_data_ptr<int64_t>();
    for (int64_t e = 0; e < entries(); ++e) ++t_offset[column[e] + 1];
    for (int64_t j = 0; j < cols_; ++j) t_offset[j + 1] += t_offset[j];
    std::vector<int64_t> next(t_offset, t_offset + cols_);
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
        const int64_t slot = next[column[e]]++;
        t_column[slot] = static_cast<int32_t>(i);
        t_index[slot] = e;
      }
    }
    transposed_ = std::move(t);
  });
  return transposed_;
}

const SparsePattern::Tiles& SparsePattern::tiles() const {
  std::call_once(tiles_once_, [this] {
    const Transposed& t = transposed();
    const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
    tiles_ = {ops::row_tiles::make({offsets_, columns_}), ops::row_tiles::make({t.offsets, t.columns})};
  });
  return tiles_;
}

std::vector<at::Tensor> SparsePattern::tensors(bool tiled) const {
  const Transposed& t = transposed();
  std::vector<at::Tensor> list{offsets_, columns_, t.offsets, t.columns, t.index};
  if (tiled) list.insert(list.end(), {tiles().rows, tiles().columns});
  return list;
}

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
  const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
  // Outside the lock: it takes long and all threads.
  const auto [offsets, columns] = ops::product_pattern::make({offsets_, columns_}, other->tensors());
  const auto made = std::make_shared<SparsePattern>(rows_, other->rows(), offsets, columns);
  const std::lock_guard lock(products_mutex_);
  std::erase_if(products_, [&](const Product& product) { return product.other.expired(); });
  products_.push_back({other, made});
  return made;
}

}  // namespace topomask
