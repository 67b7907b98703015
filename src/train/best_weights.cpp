#include "train/best_weights.h"

#include <ATen/ATen.h>

#include "topomask/train/checkpoint.h"

namespace topomask {

BestWeights::BestWeights(const torch::nn::Module& model, bool enabled) : enabled_(enabled) {
  if (!enabled) return;
  for (const auto& [name, tensor] : weights(model)) {
    best_.names.push_back(name);
    best_.own.push_back(tensor);
  }
}

void BestWeights::offer(const Evaluation& evaluation) {
  if (!enabled_) return;
  ++since_;
  if (evaluation.accuracy < accuracy_ || (evaluation.accuracy == accuracy_ && evaluation.loss >= loss_)) return;
  accuracy_ = evaluation.accuracy;
  loss_ = evaluation.loss;
  since_ = 0;
  best_.copies.clear();
  for (const at::Tensor& tensor : best_.own) best_.copies.push_back(tensor.clone());
}

at::Tensor BestWeights::score() const {
  if (best_.copies.empty()) return {};
  return at::tensor({accuracy_, loss_, static_cast<double>(since_)}, at::kDouble);
}

void BestWeights::restore(const NamedTensors& state, const at::Tensor& score) {
  if (!enabled_ || !score.defined()) return;
  TORCH_CHECK(score.dim() == 1 && score.size(0) == 3, "BestWeights::restore: score must be [3], got ", score.sizes());
  best_.restore("BestWeights", state);
  const at::Tensor numbers = score.to(at::kCPU, at::kDouble);
  accuracy_ = numbers[0].item<double>();
  loss_ = numbers[1].item<double>();
  since_ = static_cast<int64_t>(numbers[2].item<double>());
}

}  // namespace topomask
