#include <ATen/ATen.h>

#include "core/checks.h"
#include "graph/csr.h"
#include "graph/weights.h"
#include "topomask/graph.h"

namespace topomask {
namespace {

constexpr const char* kFromEdgesOp = "from_edges";

/// A column and the position of its edge in the input, so that sorting a row keeps spellings of one edge in the order
/// given.
using Slot = uint64_t;
Slot make_slot(int32_t column, int64_t edge) {
  return static_cast<uint64_t>(column) << 32 | static_cast<uint64_t>(edge);
}
int32_t column_of(Slot slot) {
  return static_cast<int32_t>(slot >> 32);
}
int64_t edge_of(Slot slot) {
  return static_cast<int64_t>(slot & 0xffffffffu);
}

struct Rows {
  at::Tensor offsets;             // int64 [N+1]
  std::unique_ptr<Slot[]> slots;  // row i: offsets[i] … offsets[i+1]-1
};

/// Counting sort of the edges by row: two linear passes, no comparison.
Rows bucket_by_row(int64_t nodes, const at::Tensor& source, const at::Tensor& target, const EdgeListOptions& options) {
  const int32_t* u = source.const_data_ptr<int32_t>();
  const int32_t* v = target.const_data_ptr<int32_t>();
  const int64_t edges = source.size(0);
  // cursor[i + 1] counts row i - 1, then is the start of row i, and once row i is filled its end: the offsets come for
  // free.
  const at::Tensor cursors = at::zeros({nodes + 2}, at::kLong);
  int64_t* cursor = cursors.mutable_data_ptr<int64_t>();
  for (int64_t e = 0; e < edges; ++e) {
    if (u[e] == v[e]) {
      TORCH_CHECK(options.self_loops != SelfLoops::refuse, kFromEdgesOp, ": self-loops are refused, got (", u[e], ", ",
                  v[e], ") at position ", e);
      cursor[u[e] + 2] += options.self_loops == SelfLoops::keep;
    } else {
      ++cursor[u[e] + 2];
      cursor[v[e] + 2] += !options.directed;
    }
  }
  accumulate_offsets(kFromEdgesOp, cursors.narrow(0, 1, nodes + 1));
  Rows rows{cursors.narrow(0, 0, nodes + 1), std::make_unique_for_overwrite<Slot[]>(cursor[nodes + 1])};
  for (int64_t e = 0; e < edges; ++e) {
    const bool loop = u[e] == v[e];
    if (loop && options.self_loops == SelfLoops::drop) continue;
    rows.slots[cursor[u[e] + 1]++] = make_slot(v[e], e);
    if (!options.directed && !loop) rows.slots[cursor[v[e] + 1]++] = make_slot(u[e], e);
  }
  return rows;
}

/// Sorts every row and counts its distinct columns into counts[1 …].
void sort_rows(const Rows& rows, int64_t nodes, int64_t* counts) {
  const int64_t* offset = rows.offsets.const_data_ptr<int64_t>();
  at::parallel_for(0, nodes, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Slot* first = rows.slots.get() + offset[i];
      Slot* last = rows.slots.get() + offset[i + 1];
      if (!std::is_sorted(first, last)) std::sort(first, last);
      int64_t distinct = 0;
      for (Slot* s = first; s < last; ++s) distinct += s == first || column_of(s[0]) != column_of(s[-1]);
      counts[i + 1] = distinct;
    }
  });
}

[[noreturn]] void refuse_duplicate(const Rows& rows, int64_t nodes) {
  const int64_t* offset = rows.offsets.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < nodes; ++i) {
    for (int64_t s = offset[i] + 1; s < offset[i + 1]; ++s) {
      const Slot before = rows.slots[s - 1];
      const Slot slot = rows.slots[s];
      TORCH_CHECK(column_of(before) != column_of(slot), kFromEdgesOp, ": duplicate edges are refused, got (", i, ", ",
                  column_of(slot), ") at positions ", edge_of(before), " and ", edge_of(slot));
    }
  }
  TORCH_INTERNAL_ASSERT(false, "no duplicate to name");
}

/// Writes the distinct columns of every row, and their weights: the first one given, or the sum in the order given,
/// which makes both directions of an undirected edge equal to the bit. `given` null: every edge weighs 1.
template <class Weight>
void write_rows(const Rows& rows, const at::Tensor& offsets, bool sum, const Weight* given, int32_t* column,
                Weight* weight) {
  const int64_t* from = rows.offsets.const_data_ptr<int64_t>();
  const int64_t* to = offsets.const_data_ptr<int64_t>();
  at::parallel_for(0, offsets.size(0) - 1, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t out = to[i];
      for (int64_t s = from[i]; s < from[i + 1];) {
        const int32_t j = column_of(rows.slots[s]);
        double total = given ? static_cast<double>(given[edge_of(rows.slots[s])]) : 1.0;
        for (++s; s < from[i + 1] && column_of(rows.slots[s]) == j; ++s) {
          if (sum) total += given ? static_cast<double>(given[edge_of(rows.slots[s])]) : 1.0;
        }
        column[out] = j;
        weight[out] = static_cast<Weight>(total);
        TORCH_CHECK(std::isfinite(weight[out]), kFromEdgesOp, ": weights must have a finite sum, got ", weight[out],
                    " for (", i, ", ", j, ")");
        ++out;
      }
    }
  });
}

}  // namespace

Graph Graph::from_edges(int64_t nodes, const at::Tensor& source, const at::Tensor& target, const at::Tensor& weights,
                        const EdgeListOptions& options) {
  check_node_count(kFromEdgesOp, "nodes", nodes);
  const at::Tensor u = checked_node_ids(kFromEdgesOp, "source", source, 0, nodes);
  const at::Tensor v = checked_node_ids(kFromEdgesOp, "target", target, 0, nodes);
  TORCH_CHECK(u.size(0) == v.size(0), kFromEdgesOp, ": source and target must have one length, got ", u.size(0),
              " and ", v.size(0));
  TORCH_CHECK(u.size(0) < int64_t{1} << 32, kFromEdgesOp, ": source must have fewer than 2^32 edges, got ", u.size(0));
  const bool weighted = weights.defined();
  TORCH_CHECK(!weighted || !weights.requires_grad(), kFromEdgesOp,
              ": weights must not require grad, as gradients stop here (use with_weights), got weights that do");
  const at::Tensor given = weighted ? checked_weights(kFromEdgesOp, weights, u.size(0)) : at::Tensor();

  const Rows rows = bucket_by_row(nodes, u, v, options);
  at::Tensor offsets = at::zeros({nodes + 1}, at::kLong);
  sort_rows(rows, nodes, offsets.mutable_data_ptr<int64_t>());
  accumulate_offsets(kFromEdgesOp, offsets);
  const int64_t entries = offsets.const_data_ptr<int64_t>()[nodes];
  const bool repeated = entries != rows.offsets.const_data_ptr<int64_t>()[nodes];
  if (repeated && options.duplicates == Duplicates::refuse) refuse_duplicate(rows, nodes);

  at::Tensor columns = at::empty({entries}, at::kInt);
  at::Tensor values = at::empty({entries}, weighted ? given.scalar_type() : at::kFloat);
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), kFromEdgesOp, [&] {
    write_rows<scalar_t>(rows, offsets, options.duplicates == Duplicates::sum,
                         weighted ? given.const_data_ptr<scalar_t>() : nullptr, columns.mutable_data_ptr<int32_t>(),
                         values.mutable_data_ptr<scalar_t>());
  });
  auto pattern = std::make_shared<const SparsePattern>(nodes, nodes, std::move(offsets), std::move(columns));
  return Graph(std::move(pattern), std::move(values), options.directed);
}

}  // namespace topomask
