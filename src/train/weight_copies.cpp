#include "topomask/train/weight_copies.h"

#include <ATen/ATen.h>

namespace topomask {

void WeightCopies::exchange() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < copies.size(); ++i) {
    const at::Tensor before = own[i].clone();
    own[i].copy_(copies[i]);  // in place: masks made of a parameter follow
    copies[i].copy_(before);
  }
}

NamedTensors WeightCopies::state() const {
  NamedTensors state;
  for (size_t i = 0; i < copies.size(); ++i) state[names[i]] = copies[i];
  return state;
}

void WeightCopies::restore(const char* op, const NamedTensors& state) {
  std::vector<at::Tensor> restored;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = state.find(names[i]);
    TORCH_CHECK(found != state.end() && found->second.sizes() == own[i].sizes(), op, "::restore: state must have ",
                names[i], " of shape ", own[i].sizes(), ", got ",
                found == state.end() ? "none" : c10::str(found->second.sizes()));
    restored.push_back(found->second.to(own[i].options().requires_grad(false), /*non_blocking=*/false, /*copy=*/true));
  }
  copies = std::move(restored);
}

}  // namespace topomask
