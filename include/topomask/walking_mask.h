#pragma once

#include <ATen/core/Tensor.h>

#include "topomask/export.h"
#include "topomask/graph.h"
#include "topomask/mask.h"
#include "topomask/walks.h"

namespace TOPOMASK_API topomask {

/// Algorithm 2 of Reid et al. (2024): the mask Φ̂ of asymmetric_grf_mask(sample_walks(graph, walks), f), with no matrix
/// and no table. Attention sends the walkers out again in every call and adds what they meet on their way,
///   out_i = Σ_visits f_t load (φ(q_i)·φ(k_v)) v_v / Σ_visits f_t load (φ(q_i)·φ(k_v)),
/// so memory is that of q, k, v and some two million visits at a time, whatever the number of walkers (repelling ones:
/// but at least an ensemble of one row). (The paper divides by n once more: a slip, both sums run over the same walks.)
///
/// f [K] or [H, K], of the dtype of the graph's weights, K ≤ max_hops + 1; learnable. Operator route only: visits·(m +
/// d) multiply-adds, about as many visits as walkers·(mean length + 1) a node, and the walks themselves. The backward
/// sends the same walkers out once more. Where memory for a table is no concern, asymmetric_grf_mask is faster: it
/// meets a node once that several walkers visit.
MaskPtr walking_mask(const Graph& graph, const at::Tensor& f, const WalkOptions& walks = {});

}  // namespace topomask
