#include "dist/metis.h"

#include <ATen/ATen.h>

#include <limits>
#include <vector>

#include "topomask/dist.h"

#ifdef TOPOMASK_METIS
#include <metis.h>
#endif

namespace topomask {

#ifdef TOPOMASK_METIS

bool has_metis() {
  return true;
}

namespace {

/// METIS wants both directions of each edge, once, and no loops.
struct MetisGraph {
  std::vector<idx_t> offsets, columns;
};

MetisGraph symmetric_without_loops(const Graph& graph) {
  const Graph back = graph.directed() ? graph.reversed() : graph;
  const int64_t *offset = graph.offsets().const_data_ptr<int64_t>(),
                *b_offset = back.offsets().const_data_ptr<int64_t>();
  const int32_t *column = graph.columns().const_data_ptr<int32_t>(),
                *b_column = back.columns().const_data_ptr<int32_t>();
  MetisGraph made;
  made.offsets.reserve(static_cast<size_t>(graph.num_nodes()) + 1);
  made.columns.reserve(static_cast<size_t>(graph.num_entries()));
  made.offsets.push_back(0);
  for (int64_t i = 0; i < graph.num_nodes(); ++i) {
    const int32_t *a = column + offset[i], *a_end = column + offset[i + 1];
    const int32_t *b = b_column + b_offset[i], *b_end = b_column + b_offset[i + 1];
    while (a != a_end || b != b_end) {  // the union of two ascending lists
      const int32_t j = b == b_end || (a != a_end && *a < *b) ? *a : *b;
      a += a != a_end && *a == j;
      b += b != b_end && *b == j;
      if (j != i) made.columns.push_back(j);
    }
    made.offsets.push_back(static_cast<idx_t>(made.columns.size()));
  }
  return made;
}

}  // namespace

at::Tensor metis_owners(const Graph& graph, int64_t parts) {
  TORCH_CHECK(2 * graph.num_entries() < std::numeric_limits<idx_t>::max(), "partition: METIS takes fewer than 2^",
              std::numeric_limits<idx_t>::digits - 1, " entries, got ", graph.num_entries(),
              "; method cuthill_mckee has no limit");
  MetisGraph made = symmetric_without_loops(graph);
  idx_t nodes = static_cast<idx_t>(graph.num_nodes()), constraints = 1, wanted = static_cast<idx_t>(parts), cut = 0;
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = 1;
  std::vector<idx_t> owners(static_cast<size_t>(nodes));
  const int status = METIS_PartGraphKway(&nodes, &constraints, made.offsets.data(), made.columns.data(), nullptr,
                                         nullptr, nullptr, &wanted, nullptr, nullptr, options, &cut, owners.data());
  TORCH_CHECK(status == METIS_OK, "partition: METIS failed with status ", status);
  at::Tensor result = at::empty({nodes}, at::kInt);
  std::copy(owners.begin(), owners.end(), result.mutable_data_ptr<int32_t>());
  return result;
}

#else

bool has_metis() {
  return false;
}

at::Tensor metis_owners(const Graph&, int64_t) {
  TORCH_CHECK(false, "partition: this library was built without METIS");
}

#endif

}  // namespace topomask
