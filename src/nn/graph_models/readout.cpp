#include "nn/graph_models/readout.h"

#include <ATen/ATen.h>

#include "nn/layers.h"

namespace topomask {

GraphReadout::GraphReadout(const GraphModelOptions& options, int64_t width, bool linear)
    : node_level_(options.node_level),
      dropout_(options.dropout),
      pool_(kGraphPoolNames.parse("graph model", "pool", options.pool)) {
  if (!node_level_ && pool_ == GraphPool::attention) {
    attention_ = register_module("pool", std::make_shared<AttentionPool>(width));
  }
  if (linear) head_ = register_module("head", torch::nn::Linear(width, options.classes));
}

at::Tensor GraphReadout::pooled(const at::Tensor& x, const GraphSample& sample) {
  if (node_level_) return x;
  if (attention_) return attention_->forward(x, sample.membership, sample.graphs);
  const auto pool = pool_ == GraphPool::sum ? sum_pool : pool_ == GraphPool::max ? max_pool : mean_pool;
  return pool(x, sample.membership, sample.graphs);
}

at::Tensor GraphReadout::forward(const at::Tensor& x, const GraphSample& sample) {
  const at::Tensor y = pooled(x, sample);
  return head_ ? topomask::forward(head_, at::dropout(y, dropout_, is_training())) : y;
}

}  // namespace topomask
