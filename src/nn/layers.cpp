#include "nn/layers.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace topomask {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Σ over the rows of x [M, n].
at::Tensor column_sums(const at::Tensor& x) {
  return at::mm(at::ones({1, x.size(0)}, x.options()), x).squeeze(0);
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    ctx->save_for_backward({x, weight});
    return at::addmm(bias, x, weight.t());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& g = grads[0];
    const at::Tensor dx = ctx->needs_input_grad(0) ? at::mm(g, saved[1]) : at::Tensor();
    return {dx, at::mm(g.t(), saved[0]), column_sums(g)};
  }
};

struct LayerNormFunction : torch::autograd::Function<LayerNormFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            double eps) {
    auto [out, mean, inverse] = at::native_layer_norm(x, x.sizes().slice(1), weight, bias, eps);
    ctx->save_for_backward({x, weight, bias, mean, inverse});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &mean = saved[3], &inverse = saved[4];
    const at::Tensor g = grads[0].contiguous();
    const at::Tensor dx = std::get<0>(at::native_layer_norm_backward(g, x, x.sizes().slice(1), mean, inverse, saved[1],
                                                                     saved[2], {true, false, false}));
    // Σ g and Σ g·(x − mean)·inverse over the tokens, without a normalised copy of x.
    const at::Tensor sums = at::mm(at::cat({at::ones_like(inverse), mean * inverse}, 1).t(), g);
    const at::Tensor dweight = at::mm(inverse.t(), g * x).squeeze(0) - sums[1];
    return {dx, dweight, sums[0], at::Tensor()};
  }
};

at::ScalarType working_type(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
}

at::Tensor rows(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

}  // namespace

at::Tensor norm_by_products(const torch::nn::LayerNorm& layer, const at::Tensor& x) {
  return LayerNormFunction::apply(rows(x), layer->weight, layer->bias, layer->options.eps()).reshape(x.sizes());
}

at::Tensor forward(const torch::nn::Linear& layer, const at::Tensor& x) {
  const at::ScalarType type = working_type(x);
  const at::Tensor out = LinearFunction::apply(rows(x.to(type)), layer->weight.to(type), layer->bias.to(type));
  auto sizes = x.sizes().vec();
  sizes.back() = out.size(-1);
  return out.reshape(sizes);
}

at::Tensor forward(const torch::nn::LayerNorm& layer, const at::Tensor& x) {
  if (!x.is_cuda()) return layer.ptr()->forward(x);
  return norm_by_products(layer, x.scalar_type() == at::kDouble ? x : x.to(at::kFloat));
}

}  // namespace topomask
