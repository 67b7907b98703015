#pragma once

#include <ATen/core/Tensor.h>

#include "topomask/export.h"
#include "topomask/graph.h"
#include "topomask/mask.h"

namespace TOPOMASK_API topomask {

/// M = 1: unmasked attention over N ≤ 2³¹−1 tokens. M·x is a sum over nodes; as factors, rank 1, which is linear
/// attention.
MaskPtr none_mask(int64_t nodes);

/// M_ij = 1 for j ≤ i: attention over a sequence. Prefix sums; attention in chunks, O(N·(m+d)·chunk).
MaskPtr causal_mask(int64_t nodes);

/// M given whole: [N, N] or [H, N, N], float32 or float64; itself the parameter. NaN and +∞ are refused on the CPU; −∞
/// excludes a pair where the mask is added. Takes O(N²).
MaskPtr dense_mask(const at::Tensor& matrix);

/// M given by its nonzeros; the values are the parameter ([entries], or [H, entries] for a learnable bias per edge and
/// head), as in dense_mask.
MaskPtr sparse_mask(const SparseMatrix& matrix);

/// M = A + I: each node attends to its neighbours and itself, as in graph attention networks (Veličković et al. 2018).
/// Entries 1, whatever the weights of the graph: weights that require grad are refused.
MaskPtr neighbours_mask(const Graph& graph);

/// M = W + I, W the weights of the graph, or `weights` [num_entries] in their place, in CSR order: the parameter, one
/// value per stored entry, which need not stay symmetric. The mask follows changes made to it in place. W_ii + 1 where
/// the graph has a self-loop. sparse_mask(graph.matrix()) is M = W.
MaskPtr weighted_neighbours_mask(const Graph& graph, const at::Tensor& weights = {});

}  // namespace topomask
