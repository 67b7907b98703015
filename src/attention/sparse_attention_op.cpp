#include <ATen/ATen.h>
#include <torch/library.h>

#include "attention/sparse_attention.h"
#include "core/checks.h"

// The two operators that do the work, with kernel attention and softmax as `softmax` = false and true. Where there is
// nothing to return (row_max of kernel attention, scores that are not kept) there is a tensor [0]. `tiles` and
// `t_tiles` are row_tiles of the pattern and its transpose: with them attention in bfloat16 runs on a GPU's tensor
// cores.

namespace topomask {

using at::Tensor;

PatternTensors check_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                               const Tensor& offsets, const Tensor& columns, const Tensor& t_offsets,
                               const Tensor& t_columns, const Tensor& t_index, const AttentionRule& rule) {
  const char* op = rule.softmax ? "sparse_softmax_attention" : "sparse_attention";
  PatternTensors pattern(op, offsets, columns, t_offsets, t_columns, t_index);
  check_nodes(op, "q", q, pattern.rows());
  pattern.check_device(op, "q", q);
  check_nodes(op, "k", k, pattern.cols());
  check_nodes(op, "v", v, pattern.cols());
  check_like(op, "k", k, "q", q);
  check_like(op, "v", v, "q", q);
  TORCH_CHECK(q.size(3) == k.size(3), op, ": k must have the width of q, ", q.size(3), ", got ", describe(k));
  check_values(op, "values", values, pattern.entries(), q);
  TORCH_CHECK(rule.eps > 0, op, ": eps must be positive, got ", rule.eps);
  check_finite(op, "eps", rule.eps);
  check_finite(op, "scale", rule.scale);
  return pattern;
}

namespace {

using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Four forward_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& offsets,
                 const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index,
                 bool softmax, double scale, double eps, bool keep_scores, const std::optional<Tensor>&,
                 const std::optional<Tensor>&) {
  const AttentionRule rule{softmax, scale, eps};
  const PatternTensors pattern =
      check_attention(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, rule);
  const AttentionResult result = sparse_attention_plain(to_kernel_layout(q), to_kernel_layout(k), to_kernel_layout(v),
                                                        values.contiguous(), pattern, rule, keep_scores);
  const auto or_empty = [&](const Tensor& t) { return t.defined() ? t : at::empty({0}, values.options()); };
  return {from_kernel_layout(result.out, v.size(3), v.scalar_type()), or_empty(result.row_max), result.denominator,
          or_empty(result.scores)};
}

Four forward_meta(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, const Tensor&, const Tensor& columns,
                  const Tensor&, const Tensor&, const Tensor&, bool softmax, double, double, bool keep_scores,
                  const std::optional<Tensor>&, const std::optional<Tensor>&) {
  const auto options = q.options().dtype(accumulation_type(q.scalar_type()));
  const c10::SymInt batch = q.sym_size(0), heads = q.sym_size(1), rows = q.sym_size(2);
  const auto per_slice = [&](bool present, const c10::SymInt& count) {
    return present ? at::empty_symint({batch, heads, count}, options) : at::empty({0}, options);
  };
  return {at::empty_symint({batch, heads, rows, v.sym_size(3)}, v.options()), per_slice(softmax, rows),
          per_slice(true, rows), per_slice(keep_scores, columns.sym_size(0))};
}

Four backward_cpu(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                  const Tensor& offsets, const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns,
                  const Tensor& t_index, const Tensor&, const Tensor& row_max, const Tensor& denominator,
                  const Tensor& scores, bool softmax, double scale, double eps, bool want_values,
                  const std::optional<Tensor>&, const std::optional<Tensor>&) {
  const AttentionRule rule{softmax, scale, eps};
  const PatternTensors pattern =
      check_attention(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, rule);
  AttentionResult result;
  if (softmax) result.row_max = row_max.contiguous();
  result.denominator = denominator.contiguous();
  if (scores.numel() > 0) result.scores = scores.contiguous();
  const AttentionGradients grads =
      sparse_attention_backward_plain(to_kernel_layout(grad_out), to_kernel_layout(q), to_kernel_layout(k),
                                      to_kernel_layout(v), values.contiguous(), pattern, result, rule, want_values);
  return {from_kernel_layout(grads.q, q.size(3), q.scalar_type()),
          from_kernel_layout(grads.k, k.size(3), k.scalar_type()),
          from_kernel_layout(grads.v, v.size(3), v.scalar_type()),
          want_values ? grads.values : at::empty({0, 0}, values.options())};
}

Four backward_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                   const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                   const Tensor&, const Tensor&, const Tensor&, bool, double, double, bool want_values,
                   const std::optional<Tensor>&, const std::optional<Tensor>&) {
  const auto like = [](const Tensor& t) { return at::empty_symint(t.sym_sizes(), t.options()); };
  return {like(q), like(k), like(v), want_values ? like(values) : at::empty({0, 0}, values.options())};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "sparse_attention_forward(Tensor q, Tensor k, Tensor v, Tensor values, Tensor offsets, Tensor columns, "
      "Tensor t_offsets, Tensor t_columns, Tensor t_index, bool softmax, float scale, float eps, bool keep_scores, "
      "Tensor? tiles=None, Tensor? t_tiles=None) "
      "-> (Tensor out, Tensor row_max, Tensor denominator, Tensor scores)");
  m.def(
      "sparse_attention_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor values, Tensor offsets, "
      "Tensor columns, Tensor t_offsets, Tensor t_columns, Tensor t_index, Tensor out, Tensor row_max, "
      "Tensor denominator, Tensor scores, bool softmax, float scale, float eps, bool want_values, "
      "Tensor? tiles=None, Tensor? t_tiles=None) "
      "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_values)");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("sparse_attention_forward", forward_cpu);
  m.impl("sparse_attention_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("sparse_attention_forward", forward_meta);
  m.impl("sparse_attention_backward", backward_meta);
}

}  // namespace topomask
