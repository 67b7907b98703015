#include "train/best_weights.h"

#include <ATen/ATen.h>

#include "topomask/train/checkpoint.h"

namespace topomask {

BestWeights::BestWeights(const torch::nn::Module& model, bool enabled) : enabled_(enabled) {
  if (!enabled) return;
  for (const auto& [name, tensor] : weights(model)) {
    names_.push_back(name);
    tensors_.push_back(tensor);
  }
}

void BestWeights::offer(const Evaluation& evaluation) {
  if (!enabled_) return;
  ++since_;
  if (evaluation.accuracy < accuracy_ || (evaluation.accuracy == accuracy_ && evaluation.loss >= loss_)) return;
  accuracy_ = evaluation.accuracy;
  loss_ = evaluation.loss;
  since_ = 0;
  best_.clear();
  for (const at::Tensor& tensor : tensors_) best_.push_back(tensor.clone());
}

void BestWeights::exchange() {
  const at::NoGradGuard no_grad;
  for (size_t p = 0; p < best_.size(); ++p) {
    const at::Tensor own = tensors_[p].clone();
    tensors_[p].copy_(best_[p]);  // in place: masks made of a parameter follow
    best_[p].copy_(own);
  }
}

NamedTensors BestWeights::state() const {
  NamedTensors state;
  for (size_t p = 0; p < best_.size(); ++p) state[names_[p]] = best_[p];
  return state;
}

at::Tensor BestWeights::score() const {
  if (best_.empty()) return {};
  return at::tensor({accuracy_, loss_, static_cast<double>(since_)}, at::kDouble);
}

void BestWeights::restore(const NamedTensors& state, const at::Tensor& score) {
  if (!enabled_ || !score.defined()) return;
  TORCH_CHECK(score.dim() == 1 && score.size(0) == 3, "BestWeights::restore: score must be [3], got ", score.sizes());
  best_.clear();
  for (size_t p = 0; p < names_.size(); ++p) {
    const auto found = state.find(names_[p]);
    TORCH_CHECK(found != state.end() && found->second.sizes() == tensors_[p].sizes(),
                "BestWeights::restore: state must have ", names_[p], " of shape ", tensors_[p].sizes(), ", got ",
                found == state.end() ? "none" : c10::str(found->second.sizes()));
    best_.push_back(found->second.to(tensors_[p].device()).clone());
  }
  const at::Tensor numbers = score.to(at::kCPU, at::kDouble);
  accuracy_ = numbers[0].item<double>();
  loss_ = numbers[1].item<double>();
  since_ = static_cast<int64_t>(numbers[2].item<double>());
}

}  // namespace topomask
