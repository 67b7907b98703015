#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/internal_api.h"
#include "topomask/data/graph_set.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// For the nodes of each graph of n nodes, their entries in the eigenvectors 2 … k + 1 of the normalised Laplacian
/// (edges alike, an isolated node's row zero), by ascending eigenvalue, times √n, so that a column has mean square 1:
/// [N, k], of the dtype of the set's weights; 0 from the n-th eigenvector on. The largest entry of a vector is
/// positive; vectors of equal eigenvalues are some basis. The graphs must be undirected.
///
/// Graphs up to 512 nodes are decomposed densely, one by one. For larger ones Chebyshev-filtered subspace iteration
/// (Zhou et al. 2006) takes O(n·k) memory and products with the adjacency, until residuals are below 1e-6 or for 100
/// rounds: on graphs whose eigenvalues crowd at 0, such as long paths, the last vectors are then smooth mixtures.
at::Tensor laplacian_positions(const GraphSet& set, int64_t k);

}  // namespace topomask
