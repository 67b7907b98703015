#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

class HopCache;

/// Where the nonzeros of a [rows, cols] matrix are: CSR, immutable, shared between graphs, masks and heads.
///
/// Row i owns the entries offsets[i] … offsets[i+1]-1; `columns` are ascending and distinct inside a row. The transpose
/// is made on first use and kept, so that a product with Mᵀ and every backward pass gather rows instead of scattering
/// with atomics.
class SparsePattern : public std::enable_shared_from_this<SparsePattern> {
 public:
  /// offsets int64 [rows+1], columns int32 [entries], contiguous, on one device. On the CPU every bound is checked,
  /// O(rows + entries); on a GPU the contents are not checked, since that would wait for the device.
  SparsePattern(int64_t rows, int64_t cols, at::Tensor offsets, at::Tensor columns);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t entries() const { return columns_.size(0); }
  const at::Tensor& offsets() const { return offsets_; }
  const at::Tensor& columns() const { return columns_; }
  at::Device device() const { return columns_.device(); }

  /// The pattern on another device. A copy is shared while it lives, and leads back to this pattern.
  std::shared_ptr<const SparsePattern> to(at::Device device) const;

  /// CSR of the transpose. Entry e of the transpose is entry index[e] (int64) of this pattern.
  struct Transposed {
    at::Tensor offsets;
    at::Tensor columns;
    at::Tensor index;
  };
  const Transposed& transposed() const;

  /// The pattern and its transpose in tiles of sixteen rows, for kernels on tensor cores (the operator
  /// topomask::row_tiles): int32. Made on first use and kept; one size is read back where the pattern is on a GPU.
  struct Tiles {
    at::Tensor rows;
    at::Tensor columns;
  };
  const Tiles& tiles() const;

  /// The pattern as the registered operators take it: offsets, columns, those of the transpose and its index, and with
  /// `tiled` the tiles of both.
  std::vector<at::Tensor> tensors(bool tiled = false) const;

  /// Where A·Bᵀ can be nonzero, for A over this pattern and B over `other` with as many columns: (i, j) wherever row i
  /// of A and row j of B share a column. Made on first use and kept while this pattern and `other` live.
  std::shared_ptr<const SparsePattern> product(const std::shared_ptr<const SparsePattern>& other) const;
  /// The same if it has been made, else null.
  std::shared_ptr<const SparsePattern> known_product(const std::shared_ptr<const SparsePattern>& other) const;

 private:
  struct Product {
    std::weak_ptr<const SparsePattern> other;
    std::shared_ptr<const SparsePattern> pattern;
  };

  int64_t rows_;
  int64_t cols_;
  at::Tensor offsets_;
  at::Tensor columns_;
  mutable std::once_flag transposed_once_;
  mutable Transposed transposed_;
  mutable std::once_flag tiles_once_;
  mutable Tiles tiles_;
  mutable std::mutex products_mutex_;
  mutable std::vector<Product> products_;
  friend class HopCache;
  std::shared_ptr<HopCache> hops_;               // neighbourhoods of several hops: src/sparse/hops.h
  std::shared_ptr<const SparsePattern> origin_;  // of a copy on another device
  mutable std::mutex copies_mutex_;
  mutable std::vector<std::weak_ptr<const SparsePattern>> copies_;
};

using PatternPtr = std::shared_ptr<const SparsePattern>;

/// A sparse matrix, or one per head over a shared pattern.
struct SparseMatrix {
  PatternPtr pattern;
  at::Tensor values;  ///< [entries], or [H, entries]; float32 or float64

  int64_t heads() const { return values.dim() == 2 ? values.size(0) : 1; }
  at::Tensor values_by_head() const;                       ///< [heads, entries]: how the registered operators take them
  SparseMatrix to(const at::TensorOptions& target) const;  ///< another precision, or another device
  SparseMatrix transposed() const;  ///< a matrix of its own: values are gathered (differentiable)
  at::Tensor dense() const;         ///< [rows, cols] or [H, rows, cols] (differentiable); for tests and the dense route
};

/// M·x for x [..., cols, C], or [..., H, cols, C] where M has H heads. Differentiable in values and x.
/// Cost: entries·C multiply-adds per slice. Deterministic for any number of threads.
at::Tensor matmul(const SparseMatrix& matrix, const at::Tensor& x);

/// Mᵀ·x for x [..., rows, C], through the transposed pattern: no atomics.
at::Tensor matmul_transposed(const SparseMatrix& matrix, const at::Tensor& x);

}  // namespace topomask
