#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "masks/forest/low_rank/separable.h"
#include "masks/forest/structure/decomposition.h"
#include "topomask/sparse.h"

namespace topomask {

/// Products with a low-rank function of tree distances on a GPU, all components of one level of centroids at once. The
/// functions are evaluated once, when this is made: 2·rank scalars per node and level are kept.
class LowRankLevels {
 public:
  /// functions: per component. near: f at the distances Decomposition::near, float64. `options`: dtype and device.
  LowRankLevels(const Decomposition& decomposition, const std::vector<const Separable*>& functions,
                const at::Tensor& near, const at::TensorOptions& options);

  at::Device device() const { return near_.values.device(); }
  at::Tensor products(const at::Tensor& x) const;  ///< M·x for x [B, H, N, C] by node

 private:
  struct Level {
    at::Tensor nodes;          ///< int32, piece after piece
    at::Tensor pieces;         ///< int64 [P, 5], cuda::LowRankPiece
    at::Tensor components;     ///< int64 [components + 1]: the first piece of each
    at::Tensor send, receive;  ///< the factors of the nodes
    int64_t rank;              ///< the largest
  };
  std::vector<Level> levels_;
  SparseMatrix near_;
};

}  // namespace topomask
