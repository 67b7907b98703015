#include <ATen/ATen.h>

#include <numeric>

#include "nn/graph_models/blocks.h"
#include "topomask/nn/graph_model.h"

namespace topomask {
namespace {

/// Which rows of a set go where.
struct Selection {
  at::Tensor first, last;  // nodes of each chosen graph, in the set
  at::Tensor nodes;        // all of them
  at::Tensor shift;        // new place − old place of a graph's nodes

  Selection(const GraphSet& set, const at::Tensor& graphs)
      : first(set.offsets.index_select(0, graphs)), last(set.offsets.index_select(0, graphs + 1)) {
    nodes = range_places(first, last);
    const at::Tensor sizes = last - first;
    shift = sizes.cumsum(0) - sizes - first;
  }
};

/// The rows of a block-diagonal CSR array that a selection takes.
struct Rows {
  at::Tensor offsets, places, columns;

  Rows(const Selection& chosen, const at::Tensor& old_offsets, const at::Tensor& old_columns) {
    const at::Tensor first = old_offsets.index_select(0, chosen.first), last = old_offsets.index_select(0, chosen.last);
    places = range_places(first, last);
    offsets = offsets_of(old_offsets.diff().index_select(0, chosen.nodes));
    if (!old_columns.defined()) return;
    const at::Tensor shift = at::repeat_interleave(chosen.shift, last - first, std::nullopt, places.size(0));
    columns = old_columns.index_select(0, places) + shift.to(old_columns.scalar_type());
  }
};

SparseMatrix take_matrix(const SparseMatrix& matrix, const Selection& chosen) {
  const Rows rows(chosen, matrix.pattern->offsets(), matrix.pattern->columns());
  const int64_t nodes = chosen.nodes.size(0);
  return {std::make_shared<SparsePattern>(nodes, nodes, rows.offsets, rows.columns),
          matrix.values.index_select(-1, rows.places)};
}

WalkTable take_walks(const WalkTable& table, const Selection& chosen) {
  const Rows triples(chosen, table.offsets(), table.columns());
  const Rows entries(chosen, table.pattern()->offsets(), table.pattern()->columns());
  const int64_t nodes = chosen.nodes.size(0);
  WalkTable::Arrays arrays{.offsets = triples.offsets,
                           .columns = triples.columns,
                           .hops = table.hops().index_select(0, triples.places),
                           .loads = table.kept_loads().index_select(0, triples.places),
                           .counts = table.counts().index_select(0, triples.places)};
  arrays.pattern = std::make_shared<SparsePattern>(nodes, nodes, entries.offsets, entries.columns);
  arrays.feature_offsets = offsets_of(table.feature_offsets().diff().index_select(0, entries.places));
  if (table.has_group_products()) {
    const Rows products(chosen, table.product_offsets(), {});
    arrays.product_offsets = products.offsets;
    arrays.product_hops = table.product_hops().index_select(0, products.places);
    arrays.product_values = table.product_values().index_select(0, products.places);
  }
  return {std::move(arrays), table.options(), table.max_hops(), /*sampled=*/false};
}

bool is_all(const GraphSet& set, at::IntArrayRef graphs) {
  if (static_cast<int64_t>(graphs.size()) != set.size()) return false;
  for (size_t g = 0; g < graphs.size(); ++g) {
    if (graphs[g] != static_cast<int64_t>(g)) return false;
  }
  return true;
}

}  // namespace

GraphStructure take(const GraphStructure& structure, const GraphSet& set, at::IntArrayRef graphs) {
  for (const int64_t g : graphs) {
    TORCH_CHECK(g >= 0 && g < set.size(), "take: graphs must be in [0, ", set.size(), "), got ", g);
  }
  if (is_all(set, graphs)) return structure;
  const Selection chosen(set, at::tensor(graphs, at::kLong));
  GraphStructure taken;
  for (const auto& [name, rows] : structure.node) taken.node[name] = rows.index_select(0, chosen.nodes);
  for (const auto& [name, matrix] : structure.matrices) taken.matrices.emplace(name, take_matrix(matrix, chosen));
  for (const auto& [name, table] : structure.walks) taken.walks.emplace(name, take_walks(table, chosen));
  return taken;
}

GraphStructure GraphStructure::to(const at::TensorOptions& target) const {
  GraphStructure moved;
  for (const auto& [name, rows] : node) {
    moved.node[name] = rows.is_floating_point() ? rows.to(target)
                       : target.has_device()    ? rows.to(target.device())
                                                : rows;
  }
  for (const auto& [name, matrix] : matrices) moved.matrices.emplace(name, matrix.to(target));
  for (const auto& [name, table] : walks) moved.walks.emplace(name, table.to(target));
  return moved;
}

}  // namespace topomask
