#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "topomask/graph.h"

namespace topomask {

/// Edge weights as a contiguous tensor (the same one where it is contiguous), checked: float32 or float64 [entries],
/// finite, on cpu.
at::Tensor checked_weights(const char* op, const at::Tensor& weights, int64_t entries);

/// Refuses, with an error that begins with `op`, a graph whose weights require grad where their gradient would be lost;
/// `reason` is the sentence that says why it would.
void check_constant_weights(const char* op, const char* argument, const Graph& graph, const char* reason);

/// The graph itself, or with its weights detached where they require grad: for functions that measure and have no
/// gradient.
Graph with_constant_weights(const Graph& graph);

}  // namespace topomask
