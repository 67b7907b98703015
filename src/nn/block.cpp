#include <ATen/ATen.h>

#include "nn/layers.h"
#include "topomask/nn/vit.h"

namespace topomask {
namespace {

torch::nn::LayerNorm layer_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

double checked_dropout(int64_t hidden, double dropout, const std::shared_ptr<MultiheadAttention>& attention) {
  TORCH_CHECK(hidden >= 1, "TransformerBlock: hidden must be >= 1, got ", hidden);
  TORCH_CHECK(dropout >= 0 && dropout < 1, "TransformerBlock: dropout must be in [0, 1), got ", dropout);
  TORCH_CHECK(attention != nullptr, "TransformerBlock: attention must be given, got none");
  return dropout;
}

}  // namespace

TransformerBlock::TransformerBlock(int64_t width, int64_t hidden, double dropout,
                                   std::shared_ptr<MultiheadAttention> attention)
    : dropout_(checked_dropout(hidden, dropout, attention)),
      attention_norm_(register_module("attention_norm", layer_norm(width))),
      perceptron_norm_(register_module("perceptron_norm", layer_norm(width))),
      attention_(register_module("attention", std::move(attention))),
      expand_(register_module("expand", torch::nn::Linear(width, hidden))),
      contract_(register_module("contract", torch::nn::Linear(hidden, width))) {}

at::Tensor TransformerBlock::forward(const at::Tensor& x) {
  const auto dropped = [this](const at::Tensor& y) { return at::dropout(y, dropout_, is_training()); };
  const at::Tensor attended = x + dropped(attention_->forward(before_linear(attention_norm_, x)));
  const at::Tensor hidden = dropped(at::gelu(topomask::forward(expand_, before_linear(perceptron_norm_, attended))));
  return attended + dropped(topomask::forward(contract_, hidden));
}

at::Tensor TransformerBlock::row(const at::Tensor& x, int64_t token) {
  return attention_->row(before_linear(attention_norm_, x), token);
}

}  // namespace topomask
