#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

// What the operators over CSR patterns share: checking their arguments and laying them out for the kernels.

namespace topomask {

/// The five tensors of a pattern [rows, cols] as an operator takes them. The bounds of columns and the order inside a
/// row are SparsePattern's to check, once; an operator checks shapes, dtypes and both ends of the offsets.
struct PatternTensors {
  /// All on one device. The ends of the offsets are looked at on the CPU only: elsewhere it would mean to wait.
  PatternTensors(const char* op, const at::Tensor& offsets, const at::Tensor& columns);
  PatternTensors(const char* op, const at::Tensor& offsets, const at::Tensor& columns, const at::Tensor& t_offsets,
                 const at::Tensor& t_columns, const at::Tensor& t_index);
  void check_device(const char* op, const char* name, const at::Tensor& nodes) const;

  at::Tensor offsets, columns, t_offsets, t_columns, t_index;
  int64_t rows() const { return offsets.size(0) - 1; }
  int64_t cols() const { return t_offsets.size(0) - 1; }
  int64_t entries() const { return columns.size(0); }
};

/// A node tensor must be [B, H, N, C] of float64, float32 or bfloat16, on the GPU also float16; `nodes` −1 is any N.
void check_nodes(const char* op, const char* name, const at::Tensor& tensor, int64_t nodes);

/// `tensor` must have the dtype, device, batch and heads of `like`.
void check_like(const char* op, const char* name, const at::Tensor& tensor, const char* like_name,
                const at::Tensor& like);

/// values must be [1 or H, entries], of the accumulation type of `nodes` [B, H, N, C].
void check_values(const char* op, const char* name, const at::Tensor& values, int64_t entries, const at::Tensor& nodes);

/// What spmm (or spmm_transposed) and sddmm ask of their arguments, on every device.
PatternTensors check_spmm(const char* op, const at::Tensor& values, const at::Tensor& x, const at::Tensor& offsets,
                          const at::Tensor& columns, const at::Tensor& t_offsets, const at::Tensor& t_columns,
                          const at::Tensor& t_index, bool transposed);
PatternTensors check_sddmm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& offsets,
                           const at::Tensor& columns, int64_t value_heads);

/// [B, H, N, C] → contiguous [B, H, N, C rounded up to kWidthUnit] of the accumulation type, zero in the padding; the
/// tensor itself where it is that already.
at::Tensor to_kernel_layout(const at::Tensor& tensor);
int64_t padded_width(int64_t width);

/// Back: the first `width` columns, contiguous, in `dtype`.
at::Tensor from_kernel_layout(const at::Tensor& tensor, int64_t width, at::ScalarType dtype);

}  // namespace topomask
