#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "attention/factored_product.h"
#include "attention/ops.h"
#include "core/checks.h"

namespace topomask {

void check_factored_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& left_values, const PatternTensors& left, const at::Tensor& right_values,
                            const PatternTensors& right) {
  const char* op = "factored_product";
  TORCH_CHECK(left.cols() == right.cols(), op, ": left and right must have as many columns, got ", left.cols(), " and ",
              right.cols());
  check_nodes(op, "q", q, left.rows());
  check_nodes(op, "k", k, right.rows());
  check_nodes(op, "v", v, right.rows());
  check_like(op, "k", k, "q", q);
  check_like(op, "v", v, "q", q);
  TORCH_CHECK(q.size(3) == k.size(3), op, ": k must have the width of q, ", q.size(3), ", got ", describe(k));
  check_values(op, "left_values", left_values, left.entries(), q);
  check_values(op, "right_values", right_values, right.entries(), q);
}

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Two = std::tuple<Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

Two product_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& left_values,
                const Tensor& left_offsets, const Tensor& left_columns, const Tensor& left_t_offsets,
                const Tensor& left_t_columns, const Tensor& left_t_index, const Tensor& right_values,
                const Tensor& right_offsets, const Tensor& right_columns, const Tensor& right_t_offsets,
                const Tensor& right_t_columns, const Tensor& right_t_index) {
  const PatternTensors left("factored_product", left_offsets, left_columns, left_t_offsets, left_t_columns,
                            left_t_index);
  const PatternTensors right("factored_product", right_offsets, right_columns, right_t_offsets, right_t_columns,
                             right_t_index);
  check_factored_product(q, k, v, left_values, left, right_values, right);
  const FactoredProduct result =
      factored_product_plain(to_kernel_layout(q), to_kernel_layout(k), to_kernel_layout(v),
                             {left_values.contiguous(), left}, {right_values.contiguous(), right});
  return {from_kernel_layout(result.numerator, v.size(3), result.numerator.scalar_type()), result.denominator};
}

Five product_backward_cpu(const Tensor& grad_numerator, const Tensor& grad_denominator, const Tensor& q,
                          const Tensor& k, const Tensor& v, const Tensor& left_values, const Tensor& left_offsets,
                          const Tensor& left_columns, const Tensor& left_t_offsets, const Tensor& left_t_columns,
                          const Tensor& left_t_index, const Tensor& right_values, const Tensor& right_offsets,
                          const Tensor& right_columns, const Tensor& right_t_offsets, const Tensor& right_t_columns,
                          const Tensor& right_t_index, bool want_left, bool want_right) {
  const PatternTensors left("factored_product", left_offsets, left_columns, left_t_offsets, left_t_columns,
                            left_t_index);
  const PatternTensors right("factored_product", right_offsets, right_columns, right_t_offsets, right_t_columns,
                             right_t_index);
  check_factored_product(q, k, v, left_values, left, right_values, right);
  const FactoredGradients grads = factored_product_backward_plain(
      to_kernel_layout(grad_numerator), grad_denominator.contiguous(), to_kernel_layout(q), to_kernel_layout(k),
      to_kernel_layout(v), {left_values.contiguous(), left}, {right_values.contiguous(), right}, want_left, want_right);
  return {from_kernel_layout(grads.q, q.size(3), q.scalar_type()),
          from_kernel_layout(grads.k, k.size(3), k.scalar_type()),
          from_kernel_layout(grads.v, v.size(3), v.scalar_type()),
          want_left ? grads.left : at::empty({0, 0}, left_values.options()),
          want_right ? grads.right : at::empty({0, 0}, right_values.options())};
}

Two product_meta(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, const Tensor&, const Tensor&,
                 const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                 const Tensor&, const Tensor&, const Tensor&) {
  const auto options = q.options().dtype(accumulation_type(q.scalar_type()));
  return {at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2), v.sym_size(3)}, options),
          at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2)}, options)};
}

Five product_backward_meta(const Tensor&, const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v,
                           const Tensor& left_values, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                           const Tensor&, const Tensor& right_values, const Tensor&, const Tensor&, const Tensor&,
                           const Tensor&, const Tensor&, bool want_left, bool want_right) {
  const auto like = [](const Tensor& t) { return at::empty_symint(t.sym_sizes(), t.options()); };
  return {like(q), like(k), like(v), want_left ? like(left_values) : at::empty({0, 0}, left_values.options()),
          want_right ? like(right_values) : at::empty({0, 0}, right_values.options())};
}

const auto& product_handle() {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("topomask::factored_product", "").typed<decltype(product_cpu)>();
  return handle;
}

class Product : public torch::autograd::Function<Product> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& left_values, const Tensor& left_offsets, const Tensor& left_columns,
                               const Tensor& left_t_offsets, const Tensor& left_t_columns, const Tensor& left_t_index,
                               const Tensor& right_values, const Tensor& right_offsets, const Tensor& right_columns,
                               const Tensor& right_t_offsets, const Tensor& right_t_columns,
                               const Tensor& right_t_index) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({q, k, v, left_values, left_offsets, left_columns, left_t_offsets, left_t_columns,
                            left_t_index, right_values, right_offsets, right_columns, right_t_offsets, right_t_columns,
                            right_t_index});
    const auto [numerator, denominator] = product_handle().call(
        q, k, v, left_values, left_offsets, left_columns, left_t_offsets, left_t_columns, left_t_index, right_values,
        right_offsets, right_columns, right_t_offsets, right_t_columns, right_t_index);
    return {numerator, denominator};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto handle = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("topomask::factored_product_backward", "")
                                   .typed<decltype(product_backward_cpu)>();
    const auto s = ctx->get_saved_variables();
    const bool want_left = ctx->needs_input_grad(3), want_right = ctx->needs_input_grad(9);
    const auto [grad_q, grad_k, grad_v, grad_left, grad_right] =
        handle.call(grads[0], grads[1], s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12],
                    s[13], s[14], want_left, want_right);
    variable_list result(15);
    result[0] = grad_q;
    result[1] = grad_k;
    result[2] = grad_v;
    if (want_left) result[3] = grad_left;
    if (want_right) result[9] = grad_right;
    return result;
  }
};

Two product_autograd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& left_values,
                     const Tensor& left_offsets, const Tensor& left_columns, const Tensor& left_t_offsets,
                     const Tensor& left_t_columns, const Tensor& left_t_index, const Tensor& right_values,
                     const Tensor& right_offsets, const Tensor& right_columns, const Tensor& right_t_offsets,
                     const Tensor& right_t_columns, const Tensor& right_t_index) {
  const auto out =
      Product::apply(q, k, v, left_values, left_offsets, left_columns, left_t_offsets, left_t_columns, left_t_index,
                     right_values, right_offsets, right_columns, right_t_offsets, right_t_columns, right_t_index);
  return {out[0], out[1]};
}

/// q, k and v take the autocast dtype (float64 excepted); values keep the accumulation type.
Two product_autocast(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& left_values,
                     const Tensor& left_offsets, const Tensor& left_columns, const Tensor& left_t_offsets,
                     const Tensor& left_t_columns, const Tensor& left_t_index, const Tensor& right_values,
                     const Tensor& right_offsets, const Tensor& right_columns, const Tensor& right_t_offsets,
                     const Tensor& right_t_columns, const Tensor& right_t_index) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
  using at::autocast::cached_cast;
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(at::kCPU);
  return product_handle().call(cached_cast(dtype, q, at::kCPU), cached_cast(dtype, k, at::kCPU),
                               cached_cast(dtype, v, at::kCPU), cached_cast(at::kFloat, left_values, at::kCPU),
                               left_offsets, left_columns, left_t_offsets, left_t_columns, left_t_index,
                               cached_cast(at::kFloat, right_values, at::kCPU), right_offsets, right_columns,
                               right_t_offsets, right_t_columns, right_t_index);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "factored_product(Tensor q, Tensor k, Tensor v, Tensor left_values, Tensor left_offsets, Tensor left_columns, "
      "Tensor left_t_offsets, Tensor left_t_columns, Tensor left_t_index, Tensor right_values, Tensor right_offsets, "
      "Tensor right_columns, Tensor right_t_offsets, Tensor right_t_columns, Tensor right_t_index) "
      "-> (Tensor numerator, Tensor denominator)");
  m.def(
      "factored_product_backward(Tensor grad_numerator, Tensor grad_denominator, Tensor q, Tensor k, Tensor v, "
      "Tensor left_values, Tensor left_offsets, Tensor left_columns, Tensor left_t_offsets, Tensor left_t_columns, "
      "Tensor left_t_index, Tensor right_values, Tensor right_offsets, Tensor right_columns, Tensor right_t_offsets, "
      "Tensor right_t_columns, Tensor right_t_index, bool want_left, bool want_right) "
      "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_left_values, Tensor grad_right_values)");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("factored_product", product_cpu);
  m.impl("factored_product_backward", product_backward_cpu);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("factored_product", product_meta);
  m.impl("factored_product_backward", product_backward_meta);
}

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("factored_product", product_autograd);
  m.impl("factored_product_backward", torch::autograd::autogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(topomask, AutocastCPU, m) {
  m.impl("factored_product", product_autocast);
}

Two factored_product(const Tensor& q, const Tensor& k, const Tensor& v, const SparseMatrix& left,
                     const SparseMatrix& right) {
  const SparsePattern &l = *left.pattern, &r = *right.pattern;
  const SparsePattern::Transposed &lt = l.transposed(), &rt = r.transposed();
  return product_handle().call(q, k, v, left.values.reshape({left.heads(), l.entries()}), l.offsets(), l.columns(),
                               lt.offsets, lt.columns, lt.index, right.values.reshape({right.heads(), r.entries()}),
                               r.offsets(), r.columns(), rt.offsets, rt.columns, rt.index);
}

}  // namespace topomask
