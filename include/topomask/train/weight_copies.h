#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/train/optimiser.h"

namespace TOPOMASK_API topomask {

/// A second set of a model's weights, in addition to the ones that it computes with.
struct WeightCopies {
  std::vector<std::string> names;
  std::vector<at::Tensor> own;     ///< the model's
  std::vector<at::Tensor> copies;  ///< as many, or none yet

  void exchange();             ///< swaps the copies with the model's weights; a second call swaps them back
  NamedTensors state() const;  ///< the copies by name
  /// From a state of all names in the same shapes; anything else is an error that begins with `op`.
  void restore(const char* op, const NamedTensors& state);
};

}  // namespace topomask
