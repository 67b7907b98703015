#include "nn/graph_models/stack.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/normalization.h>

#include "nn/names.h"

namespace topomask {
namespace {

std::shared_ptr<torch::nn::Module> norm_named(const std::string& name, int64_t width) {
  switch (kGraphNormNames.parse("graph model", "norm", name)) {
    case GraphNorm::none:
      break;
    case GraphNorm::batch:
      return std::make_shared<torch::nn::BatchNorm1dImpl>(width);
    case GraphNorm::layer:
      return std::make_shared<torch::nn::LayerNormImpl>(torch::nn::LayerNormOptions(std::vector<int64_t>{width}));
  }
  return nullptr;
}

}  // namespace

at::Tensor relu_activation(const at::Tensor& x) {
  return at::relu(x);
}

at::Tensor elu_activation(const at::Tensor& x) {
  return at::elu(x);
}

void StackLayer::prepare(const GraphSet& set, int64_t, GraphStructure& structure) const {
  prepare_edges(set, structure);
}

GraphStack::GraphStack(const GraphModelOptions& options, uint64_t seed, const StackRule& rule)
    : GraphModel(options, seed),
      logits_(kReadoutNames.parse("graph model", "readout", options.readout) == ReadoutKind::layer),
      activation_(rule.activation) {
  const int64_t layers = rule.layers > 0 ? rule.layers : options.layers;
  int64_t width = options.features;
  for (int64_t l = 0; l < layers; ++l) {
    const bool last = logits_ && l + 1 == layers;
    const StackPlace place{l, width, last ? options.classes : options.width_of(l),
                           rule.by_head ? options.heads_of(l) : 1, last};
    layers_.push_back(register_module("layer" + std::to_string(l), rule.layer(place)));
    width = place.joined();
    if (last) break;
    norms_.push_back(norm_named(options.norm, width));
    if (norms_.back()) register_module("norm" + std::to_string(l), norms_.back());
  }
  readout_ = register_module("readout", std::make_shared<GraphReadout>(options, width, !logits_));
}

void GraphStack::prepare(const GraphSet& set, GraphStructure& structure) const {
  for (const auto& layer : layers_) layer->prepare(set, epoch(), structure);
}

at::Tensor GraphStack::after(const at::Tensor& y, size_t layer) {
  torch::nn::Module* norm = norms_[layer].get();
  at::Tensor x = y;
  if (norm != nullptr) {
    auto* batch = norm->as<torch::nn::BatchNorm1dImpl>();
    x = batch != nullptr ? batch->forward(y) : norm->as<torch::nn::LayerNormImpl>()->forward(y);
  }
  return activation_ ? activation_(x) : x;
}

at::Tensor GraphStack::forward(const GraphSample& sample, const GraphStructure& structure) {
  check_sample(sample, options().features);
  at::Tensor x = sample.features;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const at::Tensor y = layers_[l]->forward(at::dropout(x, options().dropout, is_training()), sample, structure);
    if (l == norms_.size()) {  // the logits
      x = y;
      break;
    }
    const at::Tensor next = after(y, l);
    x = options().residual && next.size(1) == x.size(1) ? x + next : next;
  }
  return readout_->forward(x, sample);
}

}  // namespace topomask
