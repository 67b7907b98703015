#include "nn/layers.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/layer_norm_rows/op.h"

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

/// Appends columns of zeros to x [M, n], and with `below` rows, until their number is a multiple of eight.
at::Tensor padded(const at::Tensor& x, bool below = false) {
  const auto missing = [&](int64_t dim) { return (8 - x.size(dim) % 8) % 8; };
  return at::constant_pad_nd(x, {0, missing(1), 0, below ? missing(0) : 0});
}

/// Products of 16-bit matrices whose rows are not multiples of 16 bytes have no kernels that are fast: over a hundred
/// thousand tokens, the gradient of a layer of ten features takes longer than all blocks of a model.
at::Tensor padded_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const int64_t out = bias.size(0);
  return LinearFunction::apply(padded(x), padded(weight, true), padded(bias.unsqueeze(0)).squeeze(0)).narrow(1, 0, out);
}

/// The norm of a GPU, in `dtype` where rows are narrow enough for a kernel that writes it.
at::Tensor norm_on_cuda(const torch::nn::LayerNorm& layer, const at::Tensor& given, at::ScalarType dtype) {
  const at::Tensor x = given.scalar_type() == at::kDouble ? given : given.to(at::kFloat);
  if (!ops::layer_norm_rows::supports(x, layer->weight, layer->bias, dtype)) return norm_by_products(layer, x);
  return ops::layer_norm_rows::norm(x, layer->weight, layer->bias, layer->options.eps(), dtype);
}

}  // namespace

at::Tensor norm_by_products(const torch::nn::LayerNorm& layer, const at::Tensor& x) {
  return LayerNormFunction::apply(rows(x), layer->weight, layer->bias, layer->options.eps()).reshape(x.sizes());
}

at::Tensor forward(const torch::nn::Linear& layer, const at::Tensor& x) {
  const at::ScalarType type = working_type(x);
  const at::Tensor weight = layer->weight.to(type), bias = layer->bias.to(type);
  const bool aligned = weight.size(0) % 8 == 0 && weight.size(1) % 8 == 0;
  const at::Tensor out = aligned || at::elementSize(type) != 2 ? LinearFunction::apply(rows(x.to(type)), weight, bias)
                                                               : padded_linear(rows(x.to(type)), weight, bias);
  auto sizes = x.sizes().vec();
  sizes.back() = out.size(-1);
  return out.reshape(sizes);
}

at::Tensor forward(const torch::nn::LayerNorm& layer, const at::Tensor& x) {
  return x.is_cuda() ? norm_on_cuda(layer, x, at::kFloat) : layer.ptr()->forward(x);
}

at::Tensor before_linear(const torch::nn::LayerNorm& layer, const at::Tensor& x) {
  if (!x.is_cuda()) return layer.ptr()->forward(x);
  const bool autocast = at::autocast::is_autocast_enabled(at::kCUDA);
  return norm_on_cuda(layer, x, autocast ? at::autocast::get_autocast_dtype(at::kCUDA) : at::kFloat);
}

}  // namespace topomask
