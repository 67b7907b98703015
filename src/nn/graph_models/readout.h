#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <memory>

#include "nn/names.h"
#include "topomask/nn/graph_layers.h"
#include "topomask/nn/graph_model.h"

namespace topomask {

/// From features of nodes to logits: a pool where graphs are labelled, then a linear layer, unless the nodes' features
/// are logits already.
class GraphReadout final : public torch::nn::Module {
 public:
  /// `width` features of a node; `linear` false: they are logits.
  GraphReadout(const GraphModelOptions& options, int64_t width, bool linear);

  at::Tensor forward(const at::Tensor& x, const GraphSample& sample);

 private:
  at::Tensor pooled(const at::Tensor& x, const GraphSample& sample);

  bool node_level_;
  double dropout_;
  GraphPool pool_;
  std::shared_ptr<AttentionPool> attention_;  // where the pool is that
  torch::nn::Linear head_{nullptr};
};

}  // namespace topomask
