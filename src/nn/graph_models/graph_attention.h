#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <memory>
#include <optional>

#include "nn/graph_models/mask_dropout.h"
#include "topomask/feature_map.h"
#include "topomask/nn/graph_mask.h"

namespace topomask {

/// A batch of graphs as the blocks of a transformer see it.
struct GraphContext {
  const GraphSample& sample;
  const GraphStructure& structure;
  at::Tensor eigenvectors;  ///< [N, s], or undefined
};

/// Multi-head attention inside each graph, x [N, width] → [N, width], under the mask of its layer: D⁻¹(M ⊙ φ(Q)φ(K)ᵀ)V,
/// or softmax with weights M_ij·exp(q_i·k_j/√d). Queries and keys are rotated by positions first where wire > 0.
class GraphAttention final : public torch::nn::Module {
 public:
  GraphAttention(const GraphModelOptions& options, int64_t layer, uint64_t seed);

  at::Tensor forward(const at::Tensor& x, const GraphContext& context);
  const GraphMask& mask() const { return *mask_; }
  at::Tensor& wire() { return wire_; }  ///< undefined where there is none

 private:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const GraphContext& context) const;

  int64_t heads_, max_entries_;
  MaskDropout dropout_;
  std::optional<FeatureMap> features_;  // none: softmax
  torch::nn::Linear qkv_, projection_;
  std::shared_ptr<GraphMask> mask_;
  at::Tensor wire_;  // [H, d/2, s]
};

/// A pre-norm block: x + attention(norm(x)), then x + perceptron(norm(x)), with dropout after each layer.
class GraphBlock final : public torch::nn::Module {
 public:
  GraphBlock(const GraphModelOptions& options, int64_t layer, uint64_t seed);

  at::Tensor forward(const at::Tensor& x, const GraphContext& context);
  GraphAttention& attention() { return *attention_; }

 private:
  double dropout_;
  torch::nn::LayerNorm attention_norm_, perceptron_norm_;
  std::shared_ptr<GraphAttention> attention_;
  torch::nn::Linear expand_, contract_;
};

}  // namespace topomask
