#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "masks/forest/structure/bins.h"
#include "masks/forest/structure/decomposition.h"
#include "topomask/sparse.h"

namespace topomask {

/// Products with a table over integer tree distances on a GPU: all pieces of one level of centroids at once,
///   M = near + Σ_level (A'ᵀ H(A') A' − Aᵀ H(A) A),
/// A the sums over the bins of groups, A' over those of whole components, and H(·) = f[depth + depth] inside a meeting:
/// direct, or by FFT where many bins meet. O(N) numbers per level are kept; a product takes O(N·C) memory in addition.
class TableLevels {
 public:
  /// A table of K = `entries`. `near_index`: where the distances Decomposition::near stand in it, K beyond its end.
  TableLevels(const Decomposition& decomposition, const Bins& bins, int64_t entries, const at::Tensor& near_index,
              at::Device device);

  at::Device device() const { return near_index_.device(); }

  /// M·x for table [1 or H, K + 1], the last entry 0, and x [B, H, N, C] by node.
  at::Tensor products(const at::Tensor& table, const at::Tensor& x) const;
  /// ∂⟨g, M·x⟩/∂table: float64 [heads, K], summed over heads where `heads` is 1.
  at::Tensor table_gradient(const at::Tensor& x, const at::Tensor& g, int64_t heads) const;

 private:
  class Builder;
  /// Sums over the items of each row.
  struct RowSums {
    at::Tensor offsets;  ///< int64 [rows + 1]
    at::Tensor items;    ///< int32
  };
  /// Meetings that are multiplied by transforms of one length.
  struct Transforms {
    int64_t length;
    int64_t meetings;
    at::Tensor rows;   ///< int64: the bins
    at::Tensor slots;  ///< int64: where they stand among meetings·length places
  };
  /// The bins of one level that meet.
  struct Meetings {
    std::vector<RowSums> sums;  ///< one after the other: no row of any is long
    at::Tensor place;           ///< int32 [N]: the bin of each node, or −1
    at::Tensor depth;           ///< int32 [bins]
    at::Tensor tiles;           ///< int32 [tiles, 4], cuda::HankelTile
    std::vector<Transforms> transforms;
    double sign;
  };
  struct Level {
    Meetings groups;      ///< sums of nodes
    Meetings components;  ///< sums of the bins of groups
  };

  at::Tensor hankel(const Meetings& meetings, const at::Tensor& table, const at::Tensor& sums) const;
  void add_gradient(const Meetings& meetings, const at::Tensor& g, const at::Tensor& x,
                    const at::Tensor& gradient) const;

  std::vector<Level> levels_;
  PatternPtr near_;        // by node
  at::Tensor near_index_;  // int32, parallel to its entries
  int64_t entries_;
};

}  // namespace topomask
