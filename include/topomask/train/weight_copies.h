#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/train/optimiser.h"

namespace TOPOMASK_API topomask {

/// A second set of a model's weights, beside the ones that it computes with.
struct WeightCopies {
  std::vector<std::string> names;
  std::vector<at::Tensor> own;     ///< the model's
  std::vector<at::Tensor> copies;  ///< as many, or none yet

  void exchange();             ///< the model gets the copies, and they what it had; again: back
  NamedTensors state() const;  ///< the copies by name
  /// From a state of all names in the same shapes; anything else is refused in the name of `op`.
  void restore(const char* op, const NamedTensors& state);
};

}  // namespace topomask
