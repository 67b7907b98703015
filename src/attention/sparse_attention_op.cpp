#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "attention/ops.h"
#include "attention/sparse_attention.h"
#include "core/checks.h"

namespace topomask {

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Kernel attention and softmax differ in their schema by `scale` and `row_max`; what they share takes softmax = false
// or true. An undefined row_max stands for the one kernel attention does not have.

using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

const char* op_name(bool softmax) {
  return softmax ? "sparse_softmax_attention" : "sparse_attention";
}

PatternTensors check_arguments(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                               const Tensor& offsets, const Tensor& columns, const Tensor& t_offsets,
                               const Tensor& t_columns, const Tensor& t_index, const AttentionRule& rule) {
  const char* op = op_name(rule.softmax);
  PatternTensors pattern(op, offsets, columns, t_offsets, t_columns, t_index);
  check_nodes(op, "q", q, pattern.rows());
  check_nodes(op, "k", k, pattern.cols());
  check_nodes(op, "v", v, pattern.cols());
  check_like(op, "k", k, "q", q);
  check_like(op, "v", v, "q", q);
  TORCH_CHECK(q.size(3) == k.size(3), op, ": k must have the width of q, ", q.size(3), ", got ", describe(k));
  check_values(op, "values", values, pattern.entries(), q);
  TORCH_CHECK(rule.eps > 0, op, ": eps must be positive, got ", rule.eps);
  return pattern;
}

AttentionResult forward_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                            const Tensor& offsets, const Tensor& columns, const Tensor& t_offsets,
                            const Tensor& t_columns, const Tensor& t_index, const AttentionRule& rule) {
  const PatternTensors pattern =
      check_arguments(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, rule);
  AttentionResult result = sparse_attention_plain(to_kernel_layout(q), to_kernel_layout(k), to_kernel_layout(v),
                                                  values.contiguous(), pattern, rule);
  result.out = from_kernel_layout(result.out, v.size(3), v.scalar_type());
  return result;
}

Four backward_cpu(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                  const Tensor& offsets, const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns,
                  const Tensor& t_index, const Tensor& row_max, const Tensor& denominator, const AttentionRule& rule,
                  bool want_values) {
  const PatternTensors pattern =
      check_arguments(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, rule);
  AttentionResult result;
  if (rule.softmax) result.row_max = row_max.contiguous();
  result.denominator = denominator.contiguous();
  const AttentionGradients grads =
      sparse_attention_backward_plain(to_kernel_layout(grad_out), to_kernel_layout(q), to_kernel_layout(k),
                                      to_kernel_layout(v), values.contiguous(), pattern, result, rule, want_values);
  return {from_kernel_layout(grads.q, q.size(3), q.scalar_type()),
          from_kernel_layout(grads.k, k.size(3), k.scalar_type()),
          from_kernel_layout(grads.v, v.size(3), v.scalar_type()),
          want_values ? grads.values : at::empty({0, 0}, values.options())};
}

Two attention_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& offsets,
                  const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index,
                  double eps) {
  const AttentionResult result = forward_cpu(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index,
                                             {.softmax = false, .scale = 1, .eps = eps});
  return {result.out, result.denominator};
}

Three softmax_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& offsets,
                  const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index,
                  double scale, double eps) {
  const AttentionResult result = forward_cpu(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index,
                                             {.softmax = true, .scale = scale, .eps = eps});
  return {result.out, result.row_max, result.denominator};
}

Four attention_backward_cpu(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                            const Tensor& values, const Tensor& offsets, const Tensor& columns, const Tensor& t_offsets,
                            const Tensor& t_columns, const Tensor& t_index, const Tensor& denominator, double eps,
                            bool want_values) {
  return backward_cpu(grad_out, q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, {}, denominator,
                      {.softmax = false, .scale = 1, .eps = eps}, want_values);
}

Four softmax_backward_cpu(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& values, const Tensor& offsets, const Tensor& columns, const Tensor& t_offsets,
                          const Tensor& t_columns, const Tensor& t_index, const Tensor& row_max,
                          const Tensor& denominator, double scale, double eps, bool want_values) {
  return backward_cpu(grad_out, q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, row_max, denominator,
                      {.softmax = true, .scale = scale, .eps = eps}, want_values);
}

Tensor row_scalars(const Tensor& q) {
  return at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2)},
                          q.options().dtype(accumulation_type(q.scalar_type())));
}

Tensor attended(const Tensor& q, const Tensor& v) {
  return at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2), v.sym_size(3)}, v.options());
}

Two attention_meta(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, const Tensor&, const Tensor&,
                   const Tensor&, const Tensor&, const Tensor&, double) {
  return {attended(q, v), row_scalars(q)};
}

Three softmax_meta(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, const Tensor&, const Tensor&,
                   const Tensor&, const Tensor&, const Tensor&, double, double) {
  return {attended(q, v), row_scalars(q), row_scalars(q)};
}

Four gradients_meta(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, bool want_values) {
  const auto like = [](const Tensor& t) { return at::empty_symint(t.sym_sizes(), t.options()); };
  return {like(q), like(k), like(v), want_values ? like(values) : at::empty({0, 0}, values.options())};
}

Four attention_backward_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                             const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                             double, bool want_values) {
  return gradients_meta(q, k, v, values, want_values);
}

Four softmax_backward_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                           const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                           const Tensor&, double, double, bool want_values) {
  return gradients_meta(q, k, v, values, want_values);
}

template <class Function>
auto handle_of(const char* name, Function*) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

const auto& attention_handle() {
  static const auto handle = handle_of("topomask::sparse_attention", attention_cpu);
  return handle;
}

const auto& softmax_handle() {
  static const auto handle = handle_of("topomask::sparse_softmax_attention", softmax_cpu);
  return handle;
}

class KernelAttention : public torch::autograd::Function<KernelAttention> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& values, const Tensor& offsets, const Tensor& columns,
                               const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index, double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, denominator] =
        attention_handle().call(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, eps);
    ctx->save_for_backward({q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, denominator});
    ctx->mark_non_differentiable({denominator});
    ctx->saved_data["eps"] = eps;
    return {out, denominator};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto handle = handle_of("topomask::sparse_attention_backward", attention_backward_cpu);
    const auto s = ctx->get_saved_variables();
    const bool want_values = ctx->needs_input_grad(3);
    const auto [grad_q, grad_k, grad_v, grad_values] =
        handle.call(grads[0], s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9],
                    ctx->saved_data["eps"].toDouble(), want_values);
    return {grad_q, grad_k, grad_v, want_values ? grad_values : Tensor(), {}, {}, {}, {}, {}, {}};
  }
};

class SoftmaxAttention : public torch::autograd::Function<SoftmaxAttention> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& values, const Tensor& offsets, const Tensor& columns,
                               const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index, double scale,
                               double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, row_max, denominator] =
        softmax_handle().call(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, scale, eps);
    ctx->save_for_backward({q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, row_max, denominator});
    ctx->mark_non_differentiable({row_max, denominator});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["eps"] = eps;
    return {out, row_max, denominator};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto handle = handle_of("topomask::sparse_softmax_attention_backward", softmax_backward_cpu);
    const auto s = ctx->get_saved_variables();
    const bool want_values = ctx->needs_input_grad(3);
    const auto [grad_q, grad_k, grad_v, grad_values] =
        handle.call(grads[0], s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10],
                    ctx->saved_data["scale"].toDouble(), ctx->saved_data["eps"].toDouble(), want_values);
    return {grad_q, grad_k, grad_v, want_values ? grad_values : Tensor(), {}, {}, {}, {}, {}, {}, {}};
  }
};

Two attention_autograd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& offsets,
                       const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index,
                       double eps) {
  const auto out = KernelAttention::apply(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, eps);
  return {out[0], out[1]};
}

Three softmax_autograd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& offsets,
                       const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index,
                       double scale, double eps) {
  const auto out =
      SoftmaxAttention::apply(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, scale, eps);
  return {out[0], out[1], out[2]};
}

/// q, k and v take the autocast dtype (float64 excepted); values keep the accumulation type.
Tensor cast_nodes(const Tensor& tensor) {
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(at::kCPU), tensor, at::kCPU);
}
Tensor cast_values(const Tensor& values) {
  return at::autocast::cached_cast(at::kFloat, values, at::kCPU);
}

Two attention_autocast(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& offsets,
                       const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index,
                       double eps) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  return attention_handle().call(cast_nodes(q), cast_nodes(k), cast_nodes(v), cast_values(values), offsets, columns,
                                 t_offsets, t_columns, t_index, eps);
}

Three softmax_autocast(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& offsets,
                       const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index,
                       double scale, double eps) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  return softmax_handle().call(cast_nodes(q), cast_nodes(k), cast_nodes(v), cast_values(values), offsets, columns,
                               t_offsets, t_columns, t_index, scale, eps);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "sparse_attention(Tensor q, Tensor k, Tensor v, Tensor values, Tensor offsets, Tensor columns, Tensor t_offsets, "
      "Tensor t_columns, Tensor t_index, float eps) -> (Tensor out, Tensor denominator)");
  m.def(
      "sparse_attention_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor values, Tensor offsets, "
      "Tensor columns, Tensor t_offsets, Tensor t_columns, Tensor t_index, Tensor denominator, float eps, "
      "bool want_values) -> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_values)");
  m.def(
      "sparse_softmax_attention(Tensor q, Tensor k, Tensor v, Tensor values, Tensor offsets, Tensor columns, "
      "Tensor t_offsets, Tensor t_columns, Tensor t_index, float scale, float eps) "
      "-> (Tensor out, Tensor row_max, Tensor denominator)");
  m.def(
      "sparse_softmax_attention_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor values, Tensor offsets, "
      "Tensor columns, Tensor t_offsets, Tensor t_columns, Tensor t_index, Tensor row_max, Tensor denominator, "
      "float scale, float eps, bool want_values) -> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_values)");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("sparse_attention", attention_cpu);
  m.impl("sparse_attention_backward", attention_backward_cpu);
  m.impl("sparse_softmax_attention", softmax_cpu);
  m.impl("sparse_softmax_attention_backward", softmax_backward_cpu);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("sparse_attention", attention_meta);
  m.impl("sparse_attention_backward", attention_backward_meta);
  m.impl("sparse_softmax_attention", softmax_meta);
  m.impl("sparse_softmax_attention_backward", softmax_backward_meta);
}

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("sparse_attention", attention_autograd);
  m.impl("sparse_attention_backward", torch::autograd::autogradNotImplementedFallback());
  m.impl("sparse_softmax_attention", softmax_autograd);
  m.impl("sparse_softmax_attention_backward", torch::autograd::autogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(topomask, AutocastCPU, m) {
  m.impl("sparse_attention", attention_autocast);
  m.impl("sparse_softmax_attention", softmax_autocast);
}

Two sparse_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SparseMatrix& matrix, double eps) {
  const SparsePattern& pattern = *matrix.pattern;
  const SparsePattern::Transposed& t = pattern.transposed();
  return attention_handle().call(q, k, v, matrix.values.reshape({matrix.heads(), pattern.entries()}), pattern.offsets(),
                                 pattern.columns(), t.offsets, t.columns, t.index, eps);
}

Three sparse_softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SparseMatrix& matrix,
                               double scale, double eps) {
  const SparsePattern& pattern = *matrix.pattern;
  const SparsePattern::Transposed& t = pattern.transposed();
  return softmax_handle().call(q, k, v, matrix.values.reshape({matrix.heads(), pattern.entries()}), pattern.offsets(),
                               pattern.columns(), t.offsets, t.columns, t.index, scale, eps);
}

}  // namespace topomask
