#include "ops/sparse_attention/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

#include "core/checks.h"
#include "ops/call.h"
#include "ops/deprecated/op.h"
#include "ops/row_layout.h"
#include "ops/sparse_attention/limits.h"

namespace topomask::ops::sparse_attention {

using at::Tensor;
using at::TensorList;

bool supports(const Shape& shape) {
  const int64_t widest = std::max(shape.features, shape.value_dim);
  return is_node_dtype(shape.dtype, shape.device) &&
         (shape.device == at::kCPU || widest * static_cast<int64_t>(c10::elementSize(shape.dtype)) <= kMaxCudaRowBytes);
}

bool uses_tiles(const Shape& shape) {
  return shape.device == at::kCUDA && shape.dtype == at::kBFloat16 &&
         std::max(shape.features, shape.value_dim) <= kMaxTiledWidth &&
         shape.entries <= std::numeric_limits<uint32_t>::max();
}

PatternTensors check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, TensorList pattern,
                     const Rule& rule) {
  const char* op = rule.softmax ? "sparse_softmax_attention" : "sparse_attention";
  PatternTensors checked(op, "pattern", pattern, PatternTensors::kBoth);
  check_nodes(op, "q", q, checked.rows());
  checked.check_device(op, "q", q);
  check_nodes(op, "k", k, checked.cols());
  check_nodes(op, "v", v, checked.cols());
  check_like(op, "k", k, "q", q);
  check_like(op, "v", v, "q", q);
  TORCH_CHECK(q.size(3) == k.size(3), op, ": k must have the width of q, ", q.size(3), ", got ", describe(k));
  check_values(op, "values", values, checked.entries(), q);
  TORCH_CHECK(rule.eps > 0, op, ": eps must be positive, got ", rule.eps);
  check_finite(op, "eps", rule.eps);
  check_finite(op, "scale", rule.scale);
  const Shape shape{q.scalar_type(), q.size(3), v.size(3), checked.entries(), q.device().type()};
  TORCH_CHECK(supports(shape), op, ": q and v must have at most ",
              kMaxCudaRowBytes / static_cast<int64_t>(q.element_size()), " columns of this dtype on cuda, got ",
              q.size(3), " and ", v.size(3), "; other routes take any width");
  return checked;
}

void check_results(TensorList results) {
  TORCH_CHECK(results.size() == 4,
              "sparse_attention_backward: results must be out, row_max, denominator and scores of "
              "sparse_attention_forward, got ",
              results.size(), " tensors");
}

Four forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, TensorList pattern, bool softmax,
             double scale, double eps, bool keep_scores, bool nodes_first) {
  using Signature =
      Four(const Tensor&, const Tensor&, const Tensor&, const Tensor&, TensorList, bool, double, double, bool, bool);
  return call<"sparse_attention_forward", Signature>(q, k, v, values, pattern, softmax, scale, eps, keep_scores,
                                                     nodes_first);
}

Four backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
              TensorList pattern, TensorList results, bool softmax, double scale, double eps, bool want_values) {
  using Signature = Four(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, TensorList,
                         TensorList, bool, double, double, bool);
  return call<"sparse_attention_backward", Signature>(grad_out, q, k, v, values, pattern, results, softmax, scale, eps,
                                                      want_values);
}

namespace {

/// The backward pass on the CPU saves a pass over the entries with the stored scores. They are kept where they take at
/// most half the memory of what it needs anyway: one scalar per entry against m + d per row.
bool worth_keeping_scores(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, TensorList pattern) {
  const bool differentiated = at::GradMode::is_enabled() &&
                              (q.requires_grad() || k.requires_grad() || v.requires_grad() || values.requires_grad());
  return differentiated && q.is_cpu() && pattern.size() > 1 && pattern[1].dim() == 1 && q.dim() == 4 && v.dim() == 4 &&
         pattern[1].sym_size(0) * 2 <= q.sym_size(2) * (q.sym_size(3) + v.sym_size(3));
}

Four forward_meta(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, TensorList pattern, bool softmax,
                  double, double, bool keep_scores, bool nodes_first) {
  const auto options = q.options().dtype(accumulation_type(q.scalar_type()));
  const c10::SymInt batch = q.sym_size(0), heads = q.sym_size(1), rows = q.sym_size(2);
  const auto per_slice = [&](bool present, const c10::SymInt& count) {
    return present ? at::empty_symint({batch, heads, count}, options) : at::empty({0}, options);
  };
  return {empty_rows_symint({batch, heads, rows, v.sym_size(3)}, v.options(), nodes_first), per_slice(softmax, rows),
          per_slice(true, rows), per_slice(keep_scores, pattern[1].sym_size(0))};
}

Four backward_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, TensorList,
                   TensorList, bool, double, double, bool want_values) {
  const auto like = [](const Tensor& t) { return at::empty_symint(t.sym_sizes(), t.options()); };
  return {like(q), like(k), like(v), want_values ? like(values) : at::empty({0, 0}, values.options())};
}

}  // namespace

std::tuple<Tensor, Tensor> kernel_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                                            TensorList pattern, double eps, bool nodes_first) {
  const bool keep = worth_keeping_scores(q, k, v, values, pattern);
  const auto [out, row_max, denominator, scores] = forward(q, k, v, values, pattern, false, 1, eps, keep, nodes_first);
  return {out, denominator};
}

std::tuple<Tensor, Tensor, Tensor> softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                                     const Tensor& values, TensorList pattern, double scale,
                                                     double eps) {
  const bool keep = worth_keeping_scores(q, k, v, values, pattern);
  const auto [out, row_max, denominator, scores] = forward(q, k, v, values, pattern, true, scale, eps, keep, false);
  return {out, row_max, denominator};
}

namespace {

std::tuple<Tensor, Tensor> kernel_attention_op(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                                               TensorList pattern, double eps) {
  return kernel_attention(q, k, v, values, pattern, eps, false);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "sparse_attention(Tensor q, Tensor k, Tensor v, Tensor values, Tensor[] pattern, float eps) "
      "-> (Tensor out, Tensor denominator)");
  m.def(
      "sparse_softmax_attention(Tensor q, Tensor k, Tensor v, Tensor values, Tensor[] pattern, float scale, float eps) "
      "-> (Tensor out, Tensor row_max, Tensor denominator)");
  m.def(
      "sparse_attention_forward(Tensor q, Tensor k, Tensor v, Tensor values, Tensor[] pattern, bool softmax, "
      "float scale, float eps, bool keep_scores, bool nodes_first=False) "
      "-> (Tensor out, Tensor row_max, Tensor denominator, Tensor scores)");
  m.def(
      "sparse_attention_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor values, Tensor[] pattern, "
      "Tensor[] results, bool softmax, float scale, float eps, bool want_values) "
      "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_values)");
  deprecated::define_sparse_attention(m);
}

TORCH_LIBRARY_IMPL(topomask, CompositeImplicitAutograd, m) {
  m.impl("sparse_attention", kernel_attention_op);
  m.impl("sparse_softmax_attention", softmax_attention);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("sparse_attention_forward", forward_meta);
  m.impl("sparse_attention_backward", backward_meta);
}

}  // namespace topomask::ops::sparse_attention
