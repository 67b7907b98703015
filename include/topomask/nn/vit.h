#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "topomask/export.h"
#include "topomask/mask.h"
#include "topomask/nn/attention.h"
#include "topomask/nn/options.h"

namespace TOPOMASK_API topomask {

/// A pre-norm transformer block: x + attention(norm(x)), then x + perceptron(norm(x)), with dropout after each layer.
class TransformerBlock final : public torch::nn::Module {
 public:
  TransformerBlock(int64_t width, int64_t hidden, double dropout, std::shared_ptr<MultiheadAttention> attention);

  at::Tensor forward(const at::Tensor& x);             ///< [B, T, width] → [B, T, width]
  at::Tensor row(const at::Tensor& x, int64_t token);  ///< of its attention matrix, [B, H, T]
  MultiheadAttention& attention() { return *attention_; }

 private:
  double dropout_;
  torch::nn::LayerNorm attention_norm_, perceptron_norm_;
  std::shared_ptr<MultiheadAttention> attention_;
  torch::nn::Linear expand_, contract_;
};

/// A vision transformer with learned absolute positions: patches in row-major order are the nodes of a grid graph,
/// which is what the masks of its layers are over.
class ViT final : public torch::nn::Module {
 public:
  /// Initial weights, walks and random features are functions of the seed. The walks are not part of the weights: a
  /// model whose weights are to be loaded is made with the seed that it had.
  explicit ViT(const ViTOptions& options, uint64_t seed = 0);

  at::Tensor forward(const at::Tensor& images);  ///< float32 [B, C, S, S] → logits [B, classes]

  /// The mask of each layer; empty for variants without one.
  std::vector<MaskPtr> masks();
  /// Row `token` of every attention matrix, [L, B, H, T]. Token 0 is CLS where there is one.
  at::Tensor attention_rows(const at::Tensor& images, int64_t token);
  /// f or α of each layer and head, [L, H, K]; undefined where the variant has neither.
  at::Tensor modulation() const;

  const ViTOptions& options() const { return options_; }
  int64_t parameter_count() const;

 private:
  at::Tensor embed(const at::Tensor& images);

  ViTOptions options_;
  torch::nn::Linear embedding_;
  at::Tensor positions_, cls_;
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_;
};

}  // namespace topomask
