#include <ATen/ATen.h>

#include <limits>
#include <numeric>

#include "graph/csr.h"
#include "topomask/graph.h"

namespace topomask {
namespace {

/// One axis of a grid: its size, and how far apart its neighbours are numbered.
struct Axis {
  int64_t size;
  int64_t stride;
};

std::vector<Axis> row_major_axes(const std::vector<int64_t>& dims) {
  TORCH_CHECK(!dims.empty(), "grid: dims must have at least one axis, got none");
  bool empty = false;
  for (int64_t size : dims) {
    TORCH_CHECK(size >= 0, "grid: dims must not be negative, got ", size);
    empty |= size == 0;
  }
  std::vector<Axis> axes(dims.size());
  int64_t nodes = empty ? 0 : 1;
  for (size_t a = dims.size(); a-- > 0;) {
    axes[a] = {dims[a], nodes};
    TORCH_CHECK(nodes == 0 || dims[a] <= std::numeric_limits<int32_t>::max() / nodes,
                "grid: the product of dims must be at most 2^31-1, got ", at::IntArrayRef(dims));
    nodes *= dims[a];
  }
  return axes;
}

bool is_ring(const Axis& axis, bool wrap) {
  return wrap && axis.size > 2;
}  // a ring of two would store its edge twice

/// The neighbours of a node along one axis: none, one or two, in no order.
int step_along(const Axis& axis, int64_t node, bool wrap, int64_t out[2]) {
  const int64_t place = node / axis.stride % axis.size;
  const bool ring = is_ring(axis, wrap);
  int found = 0;
  if (place > 0) out[found++] = node - axis.stride;
  if (place == 0 && ring) out[found++] = node + (axis.size - 1) * axis.stride;
  if (place + 1 < axis.size) out[found++] = node + axis.stride;
  if (place + 1 == axis.size && ring) out[found++] = node - (axis.size - 1) * axis.stride;
  return found;
}

int64_t grid_entries(const std::vector<Axis>& axes, bool wrap) {
  const int64_t nodes = axes[0].size * axes[0].stride;
  int64_t entries = 0;
  for (const Axis& axis : axes) {
    if (nodes > 0) entries += is_ring(axis, wrap) ? 2 * nodes : 2 * (nodes / axis.size) * (axis.size - 1);
  }
  return entries;
}

PatternPtr grid_pattern(const char* op, const std::vector<Axis>& axes, bool wrap) {
  check_entry_count(op, grid_entries(axes, wrap));
  const int64_t nodes = axes[0].size * axes[0].stride;
  return pattern_from_rows(
      op, nodes,
      [&](int64_t i) {
        int64_t neighbours[2];
        int64_t count = 0;
        for (const Axis& axis : axes) count += step_along(axis, i, wrap, neighbours);
        return count;
      },
      [&](int64_t i, int64_t, int32_t* out) {
        int32_t* end = out;
        for (const Axis& axis : axes) {
          int64_t neighbours[2];
          const int found = step_along(axis, i, wrap, neighbours);
          for (int n = 0; n < found; ++n) *end++ = static_cast<int32_t>(neighbours[n]);
        }
        std::sort(out, end);
      });
}

}  // namespace

Graph Graph::path(int64_t nodes) {
  check_node_count("path", "nodes", nodes);
  return Graph(grid_pattern("path", {{nodes, 1}}, false), {}, false);
}

Graph Graph::cycle(int64_t nodes) {
  check_node_count("cycle", "nodes", nodes);
  return Graph(grid_pattern("cycle", {{nodes, 1}}, true), {}, false);
}

Graph Graph::grid(const std::vector<int64_t>& dims, bool wrap) {
  return Graph(grid_pattern("grid", row_major_axes(dims), wrap), {}, false);
}

Graph Graph::complete(int64_t nodes) {
  check_node_count("complete", "nodes", nodes);
  check_entry_count("complete", nodes * (nodes - 1));
  PatternPtr pattern = pattern_from_rows(
      "complete", nodes, [&](int64_t) { return nodes - 1; },
      [&](int64_t i, int64_t, int32_t* out) {
        std::iota(out, out + i, int32_t{0});
        std::iota(out + i, out + (nodes - 1), static_cast<int32_t>(i + 1));
      });
  return Graph(std::move(pattern), {}, false);
}

Graph Graph::star(int64_t nodes) {
  check_node_count("star", "nodes", nodes);
  PatternPtr pattern = pattern_from_rows(
      "star", nodes, [&](int64_t i) { return i == 0 ? nodes - 1 : 1; },
      [&](int64_t i, int64_t, int32_t* out) {
        if (i > 0) {
          *out = 0;
        } else {
          std::iota(out, out + (nodes - 1), 1);
        }
      });
  return Graph(std::move(pattern), {}, false);
}

Graph Graph::hypercube(int64_t dimensions) {
  TORCH_CHECK(dimensions >= 0 && dimensions <= 30, "hypercube: dimensions must be in [0, 30], got ", dimensions);
  const int64_t nodes = int64_t{1} << dimensions;
  check_entry_count("hypercube", nodes * dimensions);
  PatternPtr pattern = pattern_from_rows(
      "hypercube", nodes, [&](int64_t) { return dimensions; },
      [&](int64_t i, int64_t, int32_t* out) {
        // Clearing the highest bit goes furthest down, setting the highest goes furthest up: this order ascends.
        for (int64_t bit = dimensions; bit-- > 0;) {
          if (i >> bit & 1) *out++ = static_cast<int32_t>(i ^ int64_t{1} << bit);
        }
        for (int64_t bit = 0; bit < dimensions; ++bit) {
          if (!(i >> bit & 1)) *out++ = static_cast<int32_t>(i | int64_t{1} << bit);
        }
      });
  return Graph(std::move(pattern), {}, false);
}

}  // namespace topomask
