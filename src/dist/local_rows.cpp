#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "attention/ops.h"
#include "core/checks.h"
#include "topomask/dist.h"

namespace topomask {

using at::Tensor;

struct LocalRows::Rule {
  const char* op;
  bool softmax;
  double scale, eps;
};

namespace {

constexpr const char* kOp = "LocalRows";

/// The distinct nodes in these rows that other parts own.
Tensor nodes_of_others(const Partition& partition, int64_t part, const SparsePattern& rows) {
  TORCH_CHECK(rows.device().is_cpu(), kOp, ": rows must be on cpu, got ", rows.device());
  const int64_t own = partition.nodes(part).size(0), nodes = partition.num_nodes();
  TORCH_CHECK(rows.rows() == own && rows.cols() == nodes, kOp, ": rows must be [", own, ", ", nodes,
              "], the rows that part ", part, " owns, got [", rows.rows(), ", ", rows.cols(), "]");
  const Tensor found = std::get<0>(at::_unique2(rows.columns().to(at::kLong)));
  return found.masked_select(partition.owners.index_select(0, found) != part);
}

/// Nodes of the whole graph, of this part or of the halo, as columns of [own | halo].
Tensor local_columns(const Tensor& wide, const Tensor& own_nodes, const Tensor& mine, const Tensor& halo) {
  const Tensor own = at::searchsorted(own_nodes, wide);
  if (halo.size(0) == 0) return own;
  const auto [ascending, place] = halo.sort();
  const Tensor found = place.index_select(0, at::searchsorted(ascending, wide).clamp_max(halo.size(0) - 1));
  return at::where(mine, own, own_nodes.size(0) + found);
}

Tensor offsets_of(const Tensor& lengths) {
  return at::cat({at::zeros({1}, at::kLong), lengths.cumsum(0)});
}

/// The entries of these rows, one after the other.
Tensor entries_of(const Tensor& offsets, const Tensor& rows) {
  const Tensor begin = offsets.index_select(0, rows), lengths = offsets.index_select(0, rows + 1) - begin;
  const Tensor total = lengths.sum();
  return at::repeat_interleave(begin - (lengths.cumsum(0) - lengths), lengths) +
         at::arange(total.item<int64_t>(), at::kLong);
}

PatternPtr pattern_of(const Tensor& lengths, const Tensor& columns, int64_t width) {
  return std::make_shared<SparsePattern>(lengths.size(0), width, offsets_of(lengths), columns.to(at::kInt));
}

Tensor rows_of(const Tensor& x, const Tensor& rows) {
  return rows.defined() ? x.index_select(2, rows.to(x.device())) : x;
}

void check(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, int64_t nodes,
           int64_t entries) {
  TORCH_CHECK(q.defined() && q.dim() >= 2 && q.size(-2) == nodes && is_node_dtype(q.scalar_type(), q.device().type()),
              op, ": q must be ", q.defined() ? node_dtypes(q.device().type()) : "given", " [..., ", nodes,
              ", m], the rows of this rank, got ", describe(q));
  TORCH_CHECK(k.defined() && k.sizes() == q.sizes() && k.scalar_type() == q.scalar_type(), op,
              ": k must be like q, got ", describe(k));
  TORCH_CHECK(v.defined() && v.dim() == q.dim() && v.sizes().slice(0, v.dim() - 1) == q.sizes().slice(0, q.dim() - 1) &&
                  v.scalar_type() == q.scalar_type(),
              op, ": v must be like q, ", describe(q), ", but for its last dimension, got ", describe(v));
  const at::ScalarType type = accumulation_type(q.scalar_type());
  TORCH_CHECK(values.defined() && (values.dim() == 1 || (values.dim() == 2 && values.size(0) > 0)) &&
                  values.size(-1) == entries && values.scalar_type() == type,
              op, ": values must be ", type, " [", entries, "] or [H, ", entries, "], got ", describe(values));
  TORCH_CHECK(values.dim() == 1 || values.size(0) == 1 || (q.dim() >= 3 && q.size(-3) == values.size(0)), op,
              ": q must be [..., H = ", values.size(0), ", ", nodes, ", m], got ", describe(q));
}

}  // namespace

LocalRows::LocalRows(const Partition& partition, int64_t part, const SparsePattern& rows, const std::string& group)
    : nodes_(rows.rows()),
      entries_(rows.entries()),
      group_(group),
      plan_(
          kOp, partition, part, [&] { return nodes_of_others(partition, part, rows); }, group) {
  const int64_t halo = plan_.halo.size(0);
  const Tensor wide = rows.columns().to(at::kLong), lengths = rows.offsets().diff();
  const Tensor mine = partition.owners.index_select(0, wide) == part;
  const Tensor local = local_columns(wide, partition.nodes(part), mine, plan_.halo);
  if (plan_.rows.largest == 0) {  // no rank has a halo
    inside_.pattern = pattern_of(lengths, local, nodes_);
    return;
  }
  const Tensor row_of = at::repeat_interleave(at::arange(nodes_, at::kLong), lengths);
  const Tensor order = at::argsort(row_of * std::max<int64_t>(nodes_ + halo, 1) + local);  // columns of the halo last
  const Tensor outside = at::zeros({nodes_}, at::kLong).index_add_(0, row_of, mine.logical_not().to(at::kLong));
  for (Piece* piece : {&inside_, &border_}) {
    const bool border = piece == &border_;
    piece->rows = at::nonzero(border ? outside.gt(0) : outside.eq(0)).squeeze(1);
    piece->entries = order.index_select(0, entries_of(rows.offsets(), piece->rows));
    Tensor columns = local.index_select(0, piece->entries);
    int64_t width = nodes_;
    if (border) {
      used_ = std::get<0>(at::_unique2(columns.masked_select(columns < nodes_)));
      Tensor number = at::zeros({nodes_ + halo}, at::kLong);
      number.index_copy_(0, used_, at::arange(used_.size(0), at::kLong));
      width = used_.size(0) + halo;
      number.narrow(0, nodes_, halo).copy_(at::arange(used_.size(0), width, at::kLong));
      columns = number.index_select(0, columns);
    }
    piece->pattern = pattern_of(lengths.index_select(0, piece->rows), columns, width);
  }
  back_ = at::argsort(at::cat({inside_.rows, border_.rows}));
}

Tensor LocalRows::attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                         const Rule& rule) const {
  check(rule.op, q, k, v, values, nodes_, entries_);
  const int64_t heads = values.dim() == 2 ? values.size(0) : 1;
  const int64_t slices = c10::multiply_integers(q.sizes().slice(0, q.dim() - 2));
  const auto by_head = [&](const Tensor& x) { return x.reshape({slices / heads, heads, nodes_, x.size(-1)}); };
  const Tensor queries = by_head(q), keys = by_head(k), content = by_head(v), all = values.view({heads, entries_});
  const auto compute = [&](const Piece& piece, const Tensor& k_seen, const Tensor& v_seen) {
    const Tensor own = piece.entries.defined() ? all.index_select(1, piece.entries.to(all.device())) : all;
    const SparseMatrix matrix{piece.pattern->to(q.device()), own};
    const Tensor some = rows_of(queries, piece.rows);
    return rule.softmax ? std::get<0>(sparse_softmax_attention(some, k_seen, v_seen, matrix, rule.scale, rule.eps))
                        : std::get<0>(sparse_attention(some, k_seen, v_seen, matrix, rule.eps));
  };
  if (!border_.pattern) return compute(inside_, keys, content).reshape(v.sizes());
  HaloRows rows = plan_.rows;
  rows.send_index = rows.send_index.to(q.device());
  HaloExchange k_exchange = start_halo_exchange(keys, rows, group_),
               v_exchange = start_halo_exchange(content, rows, group_);
  const Tensor inside = compute(inside_, k_exchange.own(), v_exchange.own());  // while rows travel
  const Tensor k_seen = at::cat({rows_of(k_exchange.own(), used_), k_exchange.wait()}, 2);
  const Tensor v_seen = at::cat({rows_of(v_exchange.own(), used_), v_exchange.wait()}, 2);
  const Tensor both = at::cat({inside, compute(border_, k_seen, v_seen)}, 2);
  return rows_of(both, back_).reshape(v.sizes());
}

Tensor LocalRows::attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, double eps) const {
  return attend(q, k, v, values, {"LocalRows.attention", /*softmax=*/false, /*scale=*/1, eps});
}

Tensor LocalRows::softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                                    std::optional<double> scale, double eps) const {
  const double width = q.defined() && q.dim() > 0 ? static_cast<double>(std::max<int64_t>(q.size(-1), 1)) : 1;
  return attend(q, k, v, values,
                {"LocalRows.softmax_attention", /*softmax=*/true, scale.value_or(1 / std::sqrt(width)), eps});
}

}  // namespace topomask
