#include "topomask/train/moving_average.h"

#include <ATen/ATen.h>

namespace topomask {

MovingAverage::MovingAverage(const torch::nn::Module& model, double decay) : decay_(decay) {
  TORCH_CHECK(decay >= 0 && decay < 1, "train: ema_decay must be in [0, 1), got ", decay);
  if (!enabled()) return;
  for (const auto& item : model.named_parameters()) {
    averages_.names.push_back(item.key());
    averages_.own.push_back(item.value());
    averages_.copies.push_back(item.value().detach().clone());
  }
}

void MovingAverage::update(int64_t step) {
  TORCH_CHECK(step >= 0, "MovingAverage::update: step must be >= 0, got ", step);
  if (!enabled()) return;
  const at::NoGradGuard no_grad;
  const auto t = static_cast<double>(step);
  at::_foreach_lerp_(averages_.copies, averages_.own, 1 - std::min(decay_, (1 + t) / (10 + t)));
}

void MovingAverage::restore(const NamedTensors& state) {
  averages_.restore("MovingAverage", state);
}

}  // namespace topomask
