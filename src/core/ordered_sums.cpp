#include "core/ordered_sums.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>

namespace topomask {
namespace {

constexpr int64_t kSumBlock = 16384;  // elements that one thread sums without a break

int64_t blocks_of(int64_t length, int64_t block) {
  return (length + block - 1) / block;
}

/// Σ a·b over contiguous elements, in eight lanes that are added in pairs.
template <class T>
double dot(const T* a, const T* b, int64_t count) {
  constexpr int64_t kLanes = 8;
  double lanes[kLanes] = {};
  int64_t e = 0;
  for (; e + kLanes <= count; e += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(a[e + l]) * static_cast<double>(b[e + l]);
  }
  for (int64_t l = 0; e < count; ++e, ++l) lanes[l] += static_cast<double>(a[e]) * static_cast<double>(b[e]);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/// sums[c] = Σ_i x[i, c]·y[i, c] over `rows` contiguous rows; y null: Σ_i x[i, c].
template <class T>
void add_rows(const T* x, const T* y, int64_t rows, int64_t columns, double* sums) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* left = x + i * columns;
    if (y) {
      const T* right = y + i * columns;
      for (int64_t c = 0; c < columns; ++c) sums[c] += static_cast<double>(left[c]) * static_cast<double>(right[c]);
    } else {
      for (int64_t c = 0; c < columns; ++c) sums[c] += static_cast<double>(left[c]);
    }
  }
}

}  // namespace

at::Tensor head_dots(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_cpu()) return (a * b).sum(at::IntArrayRef{0, 2, 3});
  const at::Tensor left = a.contiguous(), right = b.contiguous(), sums = at::zeros({a.size(1)}, at::kDouble);
  const int64_t slices = a.size(0) * a.size(1), length = a.size(2) * a.size(3), blocks = blocks_of(length, kSumBlock);
  std::vector<double> partial(slices * blocks);
  AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "head_dots", [&] {
    const scalar_t *x = left.const_data_ptr<scalar_t>(), *y = right.const_data_ptr<scalar_t>();
    at::parallel_for(0, slices * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t first = t % blocks * kSumBlock, start = t / blocks * length + first;
        partial[t] = dot(x + start, y + start, std::min(kSumBlock, length - first));
      }
    });
  });
  double* sum = sums.mutable_data_ptr<double>();
  for (int64_t t = 0; t < slices * blocks; ++t) sum[t / blocks % a.size(1)] += partial[t];
  return sums.to(a.scalar_type());
}

at::Tensor node_dots(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_cpu()) return (a * b).sum(at::IntArrayRef{0, 3});
  const at::Tensor left = a.contiguous(), right = b.contiguous();
  const int64_t batch = a.size(0), rows = a.size(1) * a.size(2), columns = a.size(3);
  const at::Tensor sums = at::empty({a.size(1), a.size(2)}, a.options());
  AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "node_dots", [&] {
    const scalar_t *x = left.const_data_ptr<scalar_t>(), *y = right.const_data_ptr<scalar_t>();
    scalar_t* sum = sums.mutable_data_ptr<scalar_t>();
    const int64_t grain = std::max<int64_t>(1, kSumBlock / std::max<int64_t>(1, batch * columns));
    at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double total = 0;
        for (int64_t s = 0; s < batch; ++s) {
          const int64_t start = (s * rows + i) * columns;
          total += dot(x + start, y + start, columns);
        }
        sum[i] = static_cast<scalar_t>(total);
      }
    });
  });
  return sums;
}

at::Tensor first_sums(const at::Tensor& x) {
  int64_t columns = 1;
  for (const int64_t size : x.sizes().slice(1)) columns *= size;
  return column_sums(x.reshape({x.size(0), columns})).view(x.sizes().slice(1));
}

at::Tensor outer_sums(const at::Tensor& a, const at::Tensor& b) {
  if (a.size(0) == 1) return ordered_matmul(a[0], b[0].mT());
  const at::Tensor left = a.permute({1, 2, 0, 3}).flatten(2), right = b.permute({1, 0, 3, 2}).flatten(1, 2);
  return ordered_matmul(left, right);
}

at::Tensor column_sums(const at::Tensor& x, const at::Tensor& y) {
  if (!x.is_cpu()) return (y.defined() ? x * y : x).sum(-2, true);
  const at::Tensor left = x.contiguous(), right = y.defined() ? y.contiguous() : y;
  std::vector<int64_t> shape = x.sizes().vec();
  shape[shape.size() - 2] = 1;
  const int64_t rows = x.size(-2), columns = x.size(-1);
  const int64_t slices = rows * columns == 0 ? 0 : x.numel() / (rows * columns);
  const int64_t block = std::max<int64_t>(1, kSumBlock / std::max<int64_t>(1, columns)),
                blocks = blocks_of(rows, block);
  std::vector<double> partial(slices * blocks * columns);
  const at::Tensor sums = at::zeros(shape, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "column_sums", [&] {
    const scalar_t* first = left.const_data_ptr<scalar_t>();
    const scalar_t* second = right.defined() ? right.const_data_ptr<scalar_t>() : nullptr;
    at::parallel_for(0, slices * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t row = t % blocks * block, start = (t / blocks * rows + row) * columns;
        add_rows(first + start, second ? second + start : nullptr, std::min(block, rows - row), columns,
                 partial.data() + t * columns);
      }
    });
    scalar_t* sum = sums.mutable_data_ptr<scalar_t>();
    for (int64_t s = 0; s < slices; ++s) {
      double* total = partial.data() + s * blocks * columns;
      for (int64_t b = 1; b < blocks; ++b) {
        for (int64_t c = 0; c < columns; ++c) total[c] += total[b * columns + c];
      }
      for (int64_t c = 0; c < columns; ++c) sum[s * columns + c] = static_cast<scalar_t>(total[c]);
    }
  });
  return sums;
}

}  // namespace topomask
