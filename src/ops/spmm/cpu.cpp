#include "ops/spmm/cpu.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/parallel.h"
#include "core/recycled.h"
#include "ops/spmm/cpu_kernel.h"
#include "ops/spmm/op.h"

namespace topomask::ops::spmm {

namespace {

template <class T>
void run_spmm(const at::Tensor& values, const at::Tensor& x, const at::Tensor& offsets, const at::Tensor& columns,
              const at::Tensor& index, const at::Tensor& y) {
  const int64_t heads = x.size(1), width = x.size(3), rows = y.size(2);
  const int64_t value_stride = values.size(0) == 1 ? 0 : values.size(1);
  SpmmArgs<T> shared{};
  shared.offsets = offsets.const_data_ptr<int64_t>();
  shared.columns = columns.const_data_ptr<int32_t>();
  shared.index = index.defined() ? index.const_data_ptr<int64_t>() : nullptr;
  shared.width = width;
  const T* value = values.const_data_ptr<T>();
  const T* source = x.const_data_ptr<T>();
  T* target = y.mutable_data_ptr<T>();
  for_row_ranges(shared.offsets, rows, x.size(0) * heads, width, [&](int64_t slice, int64_t begin, int64_t end) {
    RowBuffers<T> buffers(shared.offsets, begin, end, shared.index ? 1 : 0);
    SpmmArgs<T> args = shared;
    args.values = value + slice % heads * value_stride;
    args.x = source + slice * x.size(2) * width;
    args.y = target + slice * rows * width;
    args.buffer = buffers[0];
    spmm_rows(args, begin, end);
  });
}

template <class T>
void run_sddmm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& offsets, const at::Tensor& columns,
               const at::Tensor& out) {
  const int64_t slices = a.size(0) * a.size(1), value_heads = out.size(0), entries = out.size(1);
  const int64_t rows = a.size(2), width = a.size(3);
  SddmmArgs<T> shared{};
  shared.offsets = offsets.const_data_ptr<int64_t>();
  shared.columns = columns.const_data_ptr<int32_t>();
  shared.width = width;
  const T* left = a.const_data_ptr<T>();
  const T* right = b.const_data_ptr<T>();
  T* target = out.mutable_data_ptr<T>();
  // A task owns its rows in every slice: sums over slices need no atomics and have one order.
  for_row_ranges(shared.offsets, rows, 1, width * slices, [&](int64_t, int64_t begin, int64_t end) {
    RowBuffers<T> buffers(shared.offsets, begin, end, 1);
    for (int64_t slice = 0; slice < slices; ++slice) {
      SddmmArgs<T> args = shared;
      args.a = left + slice * rows * width;
      args.b = right + slice * b.size(2) * width;
      args.out = target + slice % value_heads * entries;
      args.accumulate = slice >= value_heads;
      args.buffer = buffers[0];
      sddmm_rows(args, begin, end);
    }
  });
}

}  // namespace

at::Tensor spmm_plain(const at::Tensor& values, const at::Tensor& x, const at::Tensor& offsets,
                      const at::Tensor& columns, const at::Tensor& index) {
  at::Tensor y = recycled_empty({x.size(0), x.size(1), offsets.size(0) - 1, x.size(3)}, x.options());
  if (x.scalar_type() == at::kFloat) {
    run_spmm<float>(values, x, offsets, columns, index, y);
  } else {
    run_spmm<double>(values, x, offsets, columns, index, y);
  }
  return y;
}

at::Tensor sddmm_plain(const at::Tensor& a, const at::Tensor& b, const at::Tensor& offsets, const at::Tensor& columns,
                       int64_t value_heads) {
  if (a.size(0) * a.size(1) == 0) return at::zeros({value_heads, columns.size(0)}, a.options());
  at::Tensor out = recycled_empty({value_heads, columns.size(0)}, a.options());
  if (a.scalar_type() == at::kFloat) {
    run_sddmm<float>(a, b, offsets, columns, out);
  } else {
    run_sddmm<double>(a, b, offsets, columns, out);
  }
  return out;
}

namespace {

using at::Tensor;
using at::TensorList;

Tensor multiply_cpu(const Tensor& values, const Tensor& x, TensorList pattern) {
  const PatternTensors p = check("spmm", values, x, pattern, false);
  const Tensor y = spmm_plain(values.contiguous(), to_kernel_layout(x), p.offsets, p.columns);
  return from_kernel_layout(y, x.size(3), x.scalar_type());
}

Tensor multiply_transposed_cpu(const Tensor& values, const Tensor& x, TensorList pattern) {
  const PatternTensors p = check("spmm_transposed", values, x, pattern, true);
  const Tensor y = spmm_plain(values.contiguous(), to_kernel_layout(x), p.t_offsets, p.t_columns, p.t_index);
  return from_kernel_layout(y, x.size(3), x.scalar_type());
}

Tensor sddmm_cpu(const Tensor& a, const Tensor& b, TensorList pattern, int64_t value_heads) {
  const PatternTensors p = check_sddmm(a, b, pattern, value_heads);
  return sddmm_plain(to_kernel_layout(a), to_kernel_layout(b), p.offsets, p.columns, value_heads);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("spmm", multiply_cpu);
  m.impl("spmm_transposed", multiply_transposed_cpu);
  m.impl("sddmm", sddmm_cpu);
}

}  // namespace topomask::ops::spmm
