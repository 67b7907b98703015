#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/pattern.h"
#include "ops/sparse_product/op.h"

namespace topomask::ops::sparse_product {

namespace {

using at::Tensor;
using at::TensorList;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr size_t kPattern = PatternTensors::kBoth;

variable_list joined(std::initializer_list<Tensor> values, std::initializer_list<TensorList> patterns) {
  variable_list all(values);
  for (TensorList pattern : patterns) all.insert(all.end(), pattern.begin(), pattern.end());
  return all;
}

/// The lists are told apart by their length when they come back.
void check_lists(const char* op, std::initializer_list<TensorList> patterns) {
  for (TensorList pattern : patterns) {
    TORCH_CHECK(pattern.size() == kPattern, op, ": a pattern must be a list of ", kPattern, " tensors, got ",
                pattern.size());
  }
}

class Product : public torch::autograd::Function<Product> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& a, const Tensor& b, TensorList a_pattern,
                        TensorList b_pattern, TensorList out) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward(joined({a, b}, {a_pattern, b_pattern, out}));
    return multiply(a, b, a_pattern, b_pattern, out);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const TensorList patterns = TensorList(saved).slice(2);
    const TensorList a_pattern = patterns.slice(0, kPattern), b_pattern = patterns.slice(kPattern, kPattern);
    const TensorList out = patterns.slice(2 * kPattern);
    variable_list result(saved.size());
    if (ctx->needs_input_grad(0)) {
      result[0] = sparse_product::backward(grads[0], saved[1], a_pattern, b_pattern, out, false);
    }
    if (ctx->needs_input_grad(1)) {
      result[1] = sparse_product::backward(grads[0], saved[0], b_pattern, a_pattern, out, true);
    }
    return result;
  }
};

class Gram : public torch::autograd::Function<Gram> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& a, TensorList a_pattern, TensorList out) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward(joined({a}, {a_pattern, out}));
    return gram(a, a_pattern, out);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const TensorList a_pattern = TensorList(saved).slice(1, kPattern), out = TensorList(saved).slice(1 + kPattern);
    variable_list result(saved.size());
    const Tensor both = grads[0] + grads[0].index_select(1, out.back());  // ∂A = (G + Gᵀ)A
    result[0] = sparse_product::backward(both, saved[0], a_pattern, a_pattern, out, false);
    return result;
  }
};

Tensor multiply_autograd(const Tensor& a, const Tensor& b, TensorList a_pattern, TensorList b_pattern, TensorList out) {
  check_lists("sparse_product", {a_pattern, b_pattern, out});
  return Product::apply(a, b, a_pattern, b_pattern, out);
}

Tensor gram_autograd(const Tensor& a, TensorList a_pattern, TensorList out) {
  check_lists("sparse_gram", {a_pattern, out});
  return Gram::apply(a, a_pattern, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("sparse_product", multiply_autograd);
  m.impl("sparse_gram", gram_autograd);
  m.impl("sparse_product_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask::ops::sparse_product
