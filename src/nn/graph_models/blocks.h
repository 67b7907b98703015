#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "topomask/data/graph_set.h"
#include "topomask/graph.h"
#include "topomask/sparse.h"

namespace topomask {

/// The places first[r] … last[r]−1 of each range r, one range after another: int64.
at::Tensor range_places(const at::Tensor& first, const at::Tensor& last);

/// counts int64 [n] → their running sums from 0: int64 [n + 1].
at::Tensor offsets_of(const at::Tensor& counts);

/// One graph of a set, its nodes numbered from 0.
Graph graph_at(const GraphSet& set, int64_t place);

/// All pairs of nodes of one graph, for graphs of nodes offsets[g] … offsets[g + 1] − 1. Σ n_g² entries; more than
/// `most` are refused, with an error that names `what`.
PatternPtr pairs_inside(const at::Tensor& offsets, int64_t most, const char* what);

}  // namespace topomask
