#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "core/internal_api.h"

// Walks on a graph that is on a GPU; on the CPU there is sample_walks. The steps as WalkSteps has them: where walks can
// go (a pattern [offsets, columns], as PatternTensors takes it), the factor of a load at each step, and alias tables
// where proposals are not uniform; halt_below and scale [max_hops], the bounds of the random words that halt and
// 1/(1 − h).

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::walk_table {

/// offsets, columns, hops, loads and counts of a table, the offsets and columns of its entries, and feature_offsets.
/// The operator `walk_table`.
std::vector<at::Tensor> table(at::TensorList pattern, const at::Tensor& factors,
                              const std::optional<at::Tensor>& threshold, const std::optional<at::Tensor>& alias,
                              const at::Tensor& halt_below, const at::Tensor& scale, int64_t walkers,
                              int64_t first_walker, int64_t seed, bool antithetic, int64_t ensemble);

/// The visits of the walks from nodes first … first+count−1, as CudaWalks::Visits. The operator `walk_visits`.
std::vector<at::Tensor> visits(at::TensorList pattern, const at::Tensor& factors,
                               const std::optional<at::Tensor>& threshold, const std::optional<at::Tensor>& alias,
                               const at::Tensor& halt_below, const at::Tensor& scale, int64_t walkers,
                               int64_t first_walker, int64_t seed, bool antithetic, int64_t ensemble, int64_t first,
                               int64_t count);

}  // namespace ops::walk_table
}  // namespace topomask
