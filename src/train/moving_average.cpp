#include "topomask/train/moving_average.h"

#include <ATen/ATen.h>

namespace topomask {

MovingAverage::MovingAverage(const torch::nn::Module& model, double decay) : decay_(decay) {
  TORCH_CHECK(decay >= 0 && decay < 1, "train: ema_decay must be in [0, 1), got ", decay);
  if (!enabled()) return;
  for (const auto& item : model.named_parameters()) {
    names_.push_back(item.key());
    parameters_.push_back(item.value());
    averages_.push_back(item.value().detach().clone());
  }
}

void MovingAverage::update(int64_t step) {
  TORCH_CHECK(step >= 0, "MovingAverage::update: step must be >= 0, got ", step);
  if (!enabled()) return;
  const at::NoGradGuard no_grad;
  const auto t = static_cast<double>(step);
  at::_foreach_lerp_(averages_, parameters_, 1 - std::min(decay_, (1 + t) / (10 + t)));
}

void MovingAverage::exchange() {
  const at::NoGradGuard no_grad;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const at::Tensor own = parameters_[p].clone();
    parameters_[p].copy_(averages_[p]);  // in place: masks made of the parameter follow
    averages_[p].copy_(own);
  }
}

NamedTensors MovingAverage::state() const {
  NamedTensors state;
  for (size_t p = 0; p < names_.size(); ++p) state[names_[p]] = averages_[p];
  return state;
}

void MovingAverage::restore(const NamedTensors& state) {
  for (size_t p = 0; p < names_.size(); ++p) {
    const auto found = state.find(names_[p]);
    TORCH_CHECK(found != state.end() && found->second.sizes() == averages_[p].sizes(),
                "MovingAverage::restore: state must have ", names_[p], " of shape ", averages_[p].sizes(), ", got ",
                found == state.end() ? "none" : c10::str(found->second.sizes()));
    averages_[p].copy_(found->second);
  }
}

}  // namespace topomask
