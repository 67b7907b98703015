#include <ATen/ATen.h>

#include "core/checks.h"
#include "topomask/encodings.h"

namespace topomask {
namespace {

constexpr const char* kDegreeEmbeddingOp = "degree_embedding";

at::Tensor rows_by_degree(const char* name, const at::Tensor& table, const Graph& graph) {
  TORCH_CHECK(table.defined() && table.dim() == 2 && table.size(0) >= 1 && is_real(table.scalar_type()),
              kDegreeEmbeddingOp, ": ", name, " must be Float or Double [max_degree + 1, C], got ", describe(table));
  check_finite(kDegreeEmbeddingOp, name, table);
  return at::embedding(table, graph.degrees().clamp_max(table.size(0) - 1).to(table.device()));
}

}  // namespace

at::Tensor degree_embedding(const Graph& graph, const at::Tensor& table, const at::Tensor& in_table) {
  const at::Tensor out = rows_by_degree("table", table, graph);
  if (!in_table.defined()) return out;
  const at::Tensor in = rows_by_degree("in_table", in_table, graph.reversed());
  TORCH_CHECK(in.scalar_type() == out.scalar_type() && in.sizes() == out.sizes(), kDegreeEmbeddingOp,
              ": in_table must be ", table.scalar_type(), " with ", table.size(1), " columns as table has, got ",
              describe(in_table));
  return out + in;
}

}  // namespace topomask
