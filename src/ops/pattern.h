#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/internal_api.h"

// What the operators over CSR patterns share: checking their arguments and laying them out for the kernels.

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops {

/// A pattern [rows, cols] as an operator takes it, a list of tensors: offsets and columns; then, for operators that
/// also walk over columns, offsets, columns and index of the transpose; then, for kernels on tensor cores, the tiles of
/// both (ops/row_tiles). SparsePattern::tensors makes such lists.
///
/// The bounds of columns and the order inside a row are SparsePattern's to check, once; an operator checks shapes,
/// dtypes, devices and both ends of the offsets. The ends are looked at on the CPU only: elsewhere it would have to
/// wait.
struct PatternTensors {
  static constexpr size_t kRows = 2, kBoth = 5, kTiled = 7;

  /// `name` is the argument in errors. The list must have `wanted` tensors at least; what follows is kept where it is
  /// there.
  PatternTensors(const char* op, const char* name, at::TensorList pattern, size_t wanted);
  void check_device(const char* op, const char* name, const at::Tensor& nodes) const;

  at::Tensor offsets, columns, t_offsets, t_columns, t_index;
  at::Tensor tiles, t_tiles;  ///< undefined where they were not given
  int64_t rows() const { return offsets.size(0) - 1; }
  int64_t cols() const { return t_offsets.size(0) - 1; }
  int64_t entries() const { return columns.size(0); }
};

/// A node tensor must be [B, H, N, C] of a dtype that is_node_dtype accepts; `nodes` −1 is any N.
void check_nodes(const char* op, const char* name, const at::Tensor& tensor, int64_t nodes);

/// `tensor` must have the dtype, device, batch and heads of `like`.
void check_like(const char* op, const char* name, const at::Tensor& tensor, const char* like_name,
                const at::Tensor& like);

/// values must be [1 or H, entries], of the accumulation type of `nodes` [B, H, N, C].
void check_values(const char* op, const char* name, const at::Tensor& values, int64_t entries, const at::Tensor& nodes);

/// [B, H, N, C] → contiguous [B, H, N, C rounded up to kWidthUnit] of the accumulation type, zero in the padding; the
/// tensor itself where it is that already.
at::Tensor to_kernel_layout(const at::Tensor& tensor);
int64_t padded_width(int64_t width);

/// Back: the first `width` columns, contiguous, in `dtype`.
at::Tensor from_kernel_layout(const at::Tensor& tensor, int64_t width, at::ScalarType dtype);

}  // namespace ops
}  // namespace topomask
