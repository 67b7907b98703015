#pragma once

#include "topomask/forest.h"

namespace topomask {

/// Forests of small trees, with at most this many pairs of nodes inside trees, are also offered as sparse matrices.
inline constexpr double kMaxSparseEntries = 1 << 24;

// The three ways of tree_mask; arguments are checked there.
MaskPtr make_exponential_mask(const Forest& forest, const at::Tensor& a, const at::Tensor& b);
MaskPtr make_table_mask(const Forest& forest, const at::Tensor& f);
MaskPtr make_low_rank_mask(const Forest& forest, const DistanceFunction& f);

/// exp(a·dist + b) with its parameters on a GPU, `weights` being the forest's.
MaskPtr make_cuda_exponential(const Forest& forest, const at::Tensor& a, const at::Tensor& weights,
                              const at::Tensor& b);

}  // namespace topomask
