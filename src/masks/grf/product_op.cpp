#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "masks/grf/product.h"
#include "masks/grf/product_arguments.h"
#include "masks/grf/product_cpu.h"

namespace topomask {
namespace {

using at::Tensor;
using at::TensorList;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<Tensor> tensors_of(const SparsePattern& pattern) {
  const auto& t = pattern.transposed();
  return {pattern.offsets(), pattern.columns(), t.offsets, t.columns, t.index};
}

Tensor sparse_product_cpu(const Tensor& a, const Tensor& b, TensorList a_pattern, TensorList b_pattern,
                          TensorList out) {
  return product_plain(check_product(a, b, a_pattern, b_pattern, out));
}

Tensor sparse_gram_cpu(const Tensor& a, TensorList a_pattern, TensorList out) {
  return product_plain(check_gram(a, a_pattern, out));
}

Tensor sparse_product_backward_cpu(const Tensor& grad, const Tensor& b, TensorList a_pattern, TensorList b_pattern,
                                   TensorList out, bool transposed) {
  return product_grad_plain(check_product_backward(grad, b, a_pattern, b_pattern, out, transposed));
}

Tensor entries_of(const Tensor& like, TensorList pattern) {
  return at::empty_symint({like.sym_size(0), pattern[1].sym_size(0)}, like.options());
}

Tensor sparse_product_meta(const Tensor& a, const Tensor&, TensorList, TensorList, TensorList out) {
  return entries_of(a, out);
}

Tensor sparse_gram_meta(const Tensor& a, TensorList, TensorList out) {
  return entries_of(a, out);
}

Tensor sparse_product_backward_meta(const Tensor&, const Tensor& b, TensorList a_pattern, TensorList, TensorList,
                                    bool) {
  return entries_of(b, a_pattern);
}

template <class Signature>
auto handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

Tensor call_product(const Tensor& a, const Tensor& b, TensorList a_pattern, TensorList b_pattern, TensorList out) {
  static const auto op = handle<decltype(sparse_product_cpu)>("topomask::sparse_product");
  return op.call(a, b, a_pattern, b_pattern, out);
}

Tensor call_gram(const Tensor& a, TensorList a_pattern, TensorList out) {
  static const auto op = handle<decltype(sparse_gram_cpu)>("topomask::sparse_gram");
  return op.call(a, a_pattern, out);
}

Tensor call_backward(const Tensor& grad, const Tensor& b, TensorList a_pattern, TensorList b_pattern, TensorList out,
                     bool transposed) {
  static const auto op = handle<decltype(sparse_product_backward_cpu)>("topomask::sparse_product_backward");
  return op.call(grad, b, a_pattern, b_pattern, out, transposed);
}

variable_list joined(std::initializer_list<Tensor> values, std::initializer_list<TensorList> patterns) {
  variable_list all(values);
  for (TensorList pattern : patterns) all.insert(all.end(), pattern.begin(), pattern.end());
  return all;
}

class SparseProduct : public torch::autograd::Function<SparseProduct> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& a, const Tensor& b, TensorList a_pattern,
                        TensorList b_pattern, TensorList out) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward(joined({a, b}, {a_pattern, b_pattern, out}));
    return call_product(a, b, a_pattern, b_pattern, out);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const TensorList patterns = TensorList(saved).slice(2);
    const TensorList a_pattern = patterns.slice(0, kPatternTensors);
    const TensorList b_pattern = patterns.slice(kPatternTensors, kPatternTensors);
    const TensorList out = patterns.slice(2 * kPatternTensors);
    variable_list result(saved.size());
    if (ctx->needs_input_grad(0)) result[0] = call_backward(grads[0], saved[1], a_pattern, b_pattern, out, false);
    if (ctx->needs_input_grad(1)) result[1] = call_backward(grads[0], saved[0], b_pattern, a_pattern, out, true);
    return result;
  }
};

class SparseGram : public torch::autograd::Function<SparseGram> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& a, TensorList a_pattern, TensorList out) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward(joined({a}, {a_pattern, out}));
    return call_gram(a, a_pattern, out);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const TensorList a_pattern = TensorList(saved).slice(1, kPatternTensors);
    const TensorList out = TensorList(saved).slice(1 + kPatternTensors);
    variable_list result(saved.size());
    const Tensor both = grads[0] + grads[0].index_select(1, out.back());  // ∂A = (G + Gᵀ)A
    result[0] = call_backward(both, saved[0], a_pattern, a_pattern, out, false);
    return result;
  }
};

Tensor sparse_product_autograd(const Tensor& a, const Tensor& b, TensorList a_pattern, TensorList b_pattern,
                               TensorList out) {
  return SparseProduct::apply(a, b, a_pattern, b_pattern, out);
}

Tensor sparse_gram_autograd(const Tensor& a, TensorList a_pattern, TensorList out) {
  return SparseGram::apply(a, a_pattern, out);
}

}  // namespace

at::Tensor sparse_product(const SparseMatrix& a, const SparseMatrix& b, const SparsePattern& out) {
  const Tensor values = call_product(at::atleast_2d(a.values), at::atleast_2d(b.values), tensors_of(*a.pattern),
                                     tensors_of(*b.pattern), tensors_of(out));
  return a.values.dim() == 1 ? values.squeeze(0) : values;
}

at::Tensor sparse_gram(const SparseMatrix& a, const SparsePattern& out) {
  const Tensor values = call_gram(at::atleast_2d(a.values), tensors_of(*a.pattern), tensors_of(out));
  return a.values.dim() == 1 ? values.squeeze(0) : values;
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("sparse_product(Tensor a, Tensor b, Tensor[] a_pattern, Tensor[] b_pattern, Tensor[] out) -> Tensor");
  m.def("sparse_gram(Tensor a, Tensor[] a_pattern, Tensor[] out) -> Tensor");
  m.def(
      "sparse_product_backward(Tensor grad, Tensor b, Tensor[] a_pattern, Tensor[] b_pattern, Tensor[] out, "
      "bool transposed) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("sparse_product", sparse_product_cpu);
  m.impl("sparse_gram", sparse_gram_cpu);
  m.impl("sparse_product_backward", sparse_product_backward_cpu);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("sparse_product", sparse_product_meta);
  m.impl("sparse_gram", sparse_gram_meta);
  m.impl("sparse_product_backward", sparse_product_backward_meta);
}

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("sparse_product", sparse_product_autograd);
  m.impl("sparse_gram", sparse_gram_autograd);
  m.impl("sparse_product_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask
