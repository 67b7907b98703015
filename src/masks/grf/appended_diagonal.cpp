#include "masks/grf/appended_diagonal.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

namespace topomask {

namespace {
constexpr int64_t kGrain = 4096;
}

at::Tensor diagonal_places(const SparsePattern& pattern) {
  if (!pattern.device().is_cpu()) return diagonal_places(*pattern.to(at::kCPU)).to(pattern.device());
  at::Tensor places = at::empty({pattern.rows()}, at::kLong);
  const int64_t* offset = pattern.offsets().const_data_ptr<int64_t>();
  const int32_t* column = pattern.columns().const_data_ptr<int32_t>();
  int64_t* place = places.mutable_data_ptr<int64_t>();
  at::parallel_for(0, pattern.rows(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      place[i] = std::lower_bound(column + offset[i], column + offset[i + 1], static_cast<int32_t>(i)) - column;
      TORCH_INTERNAL_ASSERT(place[i] < offset[i + 1] && column[place[i]] == i, "no diagonal entry in row ", i);
    }
  });
  return places;
}

AppendedDiagonal::AppendedDiagonal(const SparsePattern& given) {
  const PatternPtr here = given.to(at::kCPU);
  const SparsePattern& pattern = *here;
  const int64_t rows = pattern.rows(), entries = pattern.entries();
  at::Tensor columns = at::empty({entries + rows}, at::kInt);
  source_ = at::empty({entries + rows}, at::kLong);
  const int64_t* offset = pattern.offsets().const_data_ptr<int64_t>();
  const int32_t* column = pattern.columns().const_data_ptr<int32_t>();
  int32_t* new_column = columns.mutable_data_ptr<int32_t>();
  int64_t* source = source_.mutable_data_ptr<int64_t>();
  at::parallel_for(0, rows, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
        new_column[e + i] = column[e];
        source[e + i] = e;
      }
      new_column[offset[i + 1] + i] = static_cast<int32_t>(pattern.cols() + i);
      source[offset[i + 1] + i] = entries + i;
    }
  });
  pattern_ = std::make_shared<SparsePattern>(rows, pattern.cols() + rows,
                                             pattern.offsets() + at::arange(rows + 1, at::kLong), columns)
                 ->to(given.device());
  source_ = source_.to(given.device());
}

SparseMatrix AppendedDiagonal::operator()(const at::Tensor& values, const at::Tensor& d) const {
  return {pattern_, at::cat({values, d}, -1).index_select(-1, source_)};
}

}  // namespace topomask
