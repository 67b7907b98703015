#pragma once

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "topomask/mask.h"

namespace topomask {

/// A mask inside an autograd context, which keeps only IValues.
struct MaskHolder : torch::CustomClassHolder {
  explicit MaskHolder(MaskPtr m) : mask(std::move(m)) {}
  MaskPtr mask;
};

inline void save_mask(torch::autograd::AutogradContext* ctx, MaskPtr mask) {
  ctx->saved_data["mask"] = c10::IValue::make_capsule(c10::make_intrusive<MaskHolder>(std::move(mask)));
}

inline MaskPtr saved_mask(torch::autograd::AutogradContext* ctx) {
  return static_cast<const MaskHolder&>(*ctx->saved_data["mask"].toCapsule()).mask;
}

}  // namespace topomask
