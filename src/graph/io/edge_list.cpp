#include "graph/io/edge_list.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "core/out_of_memory.h"

namespace topomask::io {
namespace {

// The vector becomes the tensor's storage: no second copy of a large list.
template <typename T>
at::Tensor as_tensor(std::vector<T>&& values, at::ScalarType dtype) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  const auto size = static_cast<int64_t>(owner->size());
  if (size == 0) return at::empty({0}, dtype);
  return at::from_blob(
      owner->data(), {size}, [owner](void*) {}, dtype);
}

}  // namespace

void check_options(const Origin& origin, const ReadOptions& options) {
  const auto not_negative = [&](const char* name, int64_t value) {
    if (value < 0) fail(origin, "limits.", name, " must be >= 0, got ", value);
  };
  not_negative("max_nodes", options.limits.max_nodes);
  not_negative("max_edges", options.limits.max_edges);
  not_negative("max_isolated", options.limits.max_isolated);
  if (options.weight_dtype != at::kFloat && options.weight_dtype != at::kDouble) {
    fail(origin, "weight_dtype must be Float or Double, got ", options.weight_dtype);
  }
}

void warn_if_one_based(const Origin& origin, int64_t smallest, int64_t largest, const ReadOptions& options) {
  if (options.one_based || smallest != 1) return;
  const std::string text = c10::str(origin.op, ": ", origin.path, ": node ids run from 1 to ", largest,
                                    ", so that node 0 has no edge; the option one_based reads id 1 as node 0");
  if (options.warn) {
    options.warn(text);
  } else {
    std::fputs((text + "\n").c_str(), stderr);
  }
}

int64_t most_nodes(const ReadLimits& limits) {
  return std::clamp<int64_t>(limits.max_nodes - 1, 0, std::numeric_limits<int32_t>::max());
}

std::string beyond_nodes(int64_t nodes, const ReadLimits& limits) {
  return c10::str(nodes, " nodes are more than the ", most_nodes(limits), " that limits.max_nodes allows");
}

std::string beyond_edges(int64_t edges, const ReadLimits& limits) {
  return c10::str(edges, " edges are more than the ", limits.max_edges, " that limits.max_edges allows");
}

void check_isolated(const Origin& origin, int64_t nodes, int64_t edges, const ReadLimits& limits) {
  if (nodes - 2 * edges > limits.max_isolated) {
    fail(origin, nodes, " nodes for ", edges, " edges: at least ", nodes - 2 * edges,
         " without an edge, more than the ", limits.max_isolated, " that limits.max_isolated allows");
  }
}

Graph make_graph(const Origin& origin, int64_t nodes, EdgeList&& edges, const ReadOptions& options, bool directed,
                 at::ScalarType weight_dtype) {
  try {
    at::Tensor weights;
    if (!edges.weights.empty()) weights = as_tensor(std::move(edges.weights), at::kDouble).to(weight_dtype);
    const at::Tensor source = as_tensor(std::move(edges.source), at::kInt);
    const at::Tensor target = as_tensor(std::move(edges.target), at::kInt);
    const Graph graph =
        Graph::from_edges(nodes, source, target, weights,
                          {.directed = directed, .duplicates = options.duplicates, .self_loops = options.self_loops});
    return graph.weights().scalar_type() == weight_dtype ? graph : graph.to(weight_dtype);
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) fail(origin, "out of memory for ", nodes, " nodes");
    fail(origin, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    fail(origin, "out of memory for ", nodes, " nodes");
  }
}

EdgeWalk::EdgeWalk(const Origin& origin, const Graph& graph)
    : nodes_(graph.num_nodes()),
      directed_(graph.directed()),
      offsets_(graph.offsets().cpu().contiguous()),
      columns_(graph.columns().cpu().contiguous()),
      weights_(graph.weights().detach().cpu().contiguous()),
      unit_weights_(weights_.eq(1).all().item<bool>()) {
  if (!weights_.isfinite().all().item<bool>()) fail(origin, "weights must be finite to be written");
}

}  // namespace topomask::io
