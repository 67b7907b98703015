#include <ATen/ATen.h>

#include <limits>

#include "core/checks.h"
#include "graph/csr.h"
#include "topomask/graph.h"

namespace topomask {
namespace {

constexpr const char* kCartesianOp = "cartesian_product";
constexpr int64_t kMostCounted = int64_t{1} << 62;  // two of them can be added

struct CartesianRows {
  explicit CartesianRows(const SparsePattern& pattern)
      : nodes(pattern.rows()),
        entries(pattern.entries()),
        offset(pattern.offsets().const_data_ptr<int64_t>()),
        column(pattern.columns().const_data_ptr<int32_t>()) {}

  int64_t length(int64_t i) const { return offset[i + 1] - offset[i]; }
  /// The entry of row i on the diagonal, or where it would be inserted.
  int64_t diagonal(int64_t i) const { return std::lower_bound(column + offset[i], column + offset[i + 1], i) - column; }
  bool is_loop(int64_t i, int64_t entry) const { return entry < offset[i + 1] && column[entry] == i; }
  bool has_loop(int64_t i) const { return is_loop(i, diagonal(i)); }

  int64_t nodes;
  int64_t entries;
  const int64_t* offset;
  const int32_t* column;
};

/// Walks row (i, j) in ascending order: neighbours in a below i, the row of b inside block i, neighbours in a above i.
/// A loop of a lies inside block i, at j. Calls emit_a(column, entry of a) or emit_b(column, entry of b); where both
/// have a loop, emit_a.
template <class EmitA, class EmitB>
void walk_row(const CartesianRows& a, const CartesianRows& b, int64_t i, int64_t j, const EmitA& emit_a,
              const EmitB& emit_b) {
  const int64_t middle_a = a.diagonal(i);
  const int64_t middle_b = b.diagonal(j);
  const bool loop_a = a.is_loop(i, middle_a);
  const bool loop_b = b.is_loop(j, middle_b);
  for (int64_t e = a.offset[i]; e < middle_a; ++e) emit_a(a.column[e] * b.nodes + j, e);
  for (int64_t e = b.offset[j]; e < middle_b; ++e) emit_b(i * b.nodes + b.column[e], e);
  if (loop_a) emit_a(i * b.nodes + j, middle_a);
  if (loop_b && !loop_a) emit_b(i * b.nodes + j, middle_b);
  for (int64_t e = middle_b + loop_b; e < b.offset[j + 1]; ++e) emit_b(i * b.nodes + b.column[e], e);
  for (int64_t e = middle_a + loop_a; e < a.offset[i + 1]; ++e) emit_a(a.column[e] * b.nodes + j, e);
}

/// Adds b's loops onto the diagonal entries that hold a's.
at::Tensor add_shared_loops(const CartesianRows& a, const CartesianRows& b, const CartesianRows& product,
                            const at::Tensor& weights, const at::Tensor& weights_b) {
  std::vector<int64_t> shared;
  std::vector<int64_t> loop_b;
  for (int64_t i = 0; i < a.nodes; ++i) {
    if (!a.has_loop(i)) continue;
    for (int64_t j = 0; j < b.nodes; ++j) {
      if (!b.has_loop(j)) continue;
      shared.push_back(product.diagonal(i * b.nodes + j));
      loop_b.push_back(b.diagonal(j));
    }
  }
  return weights.index_add(0, at::tensor(shared), weights_b.index_select(0, at::tensor(loop_b)));
}

}  // namespace

Graph cartesian_product(const Graph& a, const Graph& b) {
  TORCH_CHECK(a.device() == b.device(), kCartesianOp, ": a and b must be on one device, got ", a.device(), " and ",
              b.device());
  if (!a.device().is_cpu()) return cartesian_product(a.to(at::kCPU), b.to(at::kCPU)).to(a.device());
  TORCH_CHECK(a.directed() == b.directed(), kCartesianOp, ": a and b must both be directed or both not, got ",
              a.directed() ? "directed" : "undirected", " and ", b.directed() ? "directed" : "undirected");
  TORCH_CHECK(a.weights().scalar_type() == b.weights().scalar_type(), kCartesianOp,
              ": a and b must have one weight dtype, got ", a.weights().scalar_type(), " and ",
              b.weights().scalar_type());
  const CartesianRows left(*a.pattern());
  const CartesianRows right(*b.pattern());
  TORCH_CHECK(left.nodes == 0 || right.nodes <= std::numeric_limits<int32_t>::max() / left.nodes, kCartesianOp,
              ": the product must have at most 2^31-1 nodes, got ", left.nodes, " times ", right.nodes);
  const int64_t most = checked_product(kCartesianOp, "the entries along a", {left.entries, right.nodes}, kMostCounted) +
                       checked_product(kCartesianOp, "the entries along b", {left.nodes, right.entries}, kMostCounted);
  check_entry_count(kCartesianOp, most);

  at::Tensor sources = at::empty({most}, at::kLong);  // positions in the weights of a, followed by those of b
  int64_t* source = sources.mutable_data_ptr<int64_t>();
  PatternPtr pattern = pattern_from_rows(
      kCartesianOp, left.nodes * right.nodes,
      [&](int64_t row) {
        const int64_t i = row / right.nodes;
        const int64_t j = row % right.nodes;
        return left.length(i) + right.length(j) - (left.has_loop(i) && right.has_loop(j));
      },
      [&](int64_t row, int64_t first, int32_t* out) {
        int64_t* from = source + first;
        const auto emit = [&](int64_t column, int64_t position) {
          *out++ = static_cast<int32_t>(column);
          *from++ = position;
        };
        const auto emit_b = [&](int64_t column, int64_t entry) { emit(column, left.entries + entry); };
        walk_row(left, right, row / right.nodes, row % right.nodes, emit, emit_b);
      });
  at::Tensor weights = at::cat({a.weights(), b.weights()}).index_select(0, sources.narrow(0, 0, pattern->entries()));
  if (pattern->entries() < most) weights = add_shared_loops(left, right, CartesianRows(*pattern), weights, b.weights());
  return Graph(std::move(pattern), std::move(weights), a.directed());
}

}  // namespace topomask
