#include "nn/points/local_layers/masked.h"

#include <ATen/ATen.h>

#include "nn/layers.h"

namespace topomask {

at::Tensor decaying(double decay, int64_t terms) {
  return (at::arange(terms, at::kFloat) * -decay).exp();
}

void add_neighbours(LocalStructure& structure, int64_t k) {
  if (!structure.neighbours.defined()) structure.neighbours = cloud_neighbours(structure.positions, k);
}

MaskedLocalLayer::MaskedLocalLayer(const PointModelOptions& options, const at::Tensor& start)
    : LocalLayer(options),
      qkv_(register_module("qkv", torch::nn::Linear(options.width, 2 * options.local_features + options.width))),
      projection_(register_module("projection", torch::nn::Linear(options.width, options.width))),
      function_(register_module("mask", std::make_shared<HopFunction>(start))) {}

at::Tensor MaskedLocalLayer::forward(const at::Tensor& x, const LocalStructure& structure) {
  const int64_t m = options().local_features;
  // Backward of a split is one concatenation.
  const auto parts = topomask::forward(qkv_, x).flatten(0, 1).split_with_sizes({2 * m, options().width}, 1);
  const auto features = (at::relu(parts[0]) + options().feature_offset).split(m, 1);
  const at::Tensor out = attend(features[0], features[1], parts[1], structure);
  return topomask::forward(projection_, out.view_as(x));
}

}  // namespace topomask
