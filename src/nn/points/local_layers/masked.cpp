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
      query_key_(register_module("query_key", torch::nn::Linear(options.width, 2 * options.local_features))),
      value_(register_module("value", torch::nn::Linear(options.width, options.width))),
      projection_(register_module("projection", torch::nn::Linear(options.width, options.width))),
      function_(register_module("mask", std::make_shared<HopFunction>(start))) {}

at::Tensor MaskedLocalLayer::forward(const at::Tensor& x, const LocalStructure& structure) {
  const at::Tensor features = at::relu(topomask::forward(query_key_, x)).flatten(0, 1) + options().feature_offset;
  const at::Tensor v = topomask::forward(value_, x).flatten(0, 1);
  const int64_t m = options().local_features;
  const at::Tensor out = attend(features.narrow(1, 0, m), features.narrow(1, m, m), v, structure);
  return topomask::forward(projection_, out.view_as(x));
}

}  // namespace topomask
