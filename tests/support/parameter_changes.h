#pragma once

#include <string>

#include "topomask/mask.h"

namespace topomask::testing {

/// A way to write to a parameter, a plain contiguous leaf. Several leave its version counter as it is.
struct ParameterChange {
  std::string name;
  bool on_cuda;  ///< whether it also works there
  void (*write)(at::Tensor& parameter);
};

/// In place, by optimisers, fused and not, through `.data`, by another memory, through a raw pointer.
const std::vector<ParameterChange>& parameter_changes();

/// A mask sees the values that its parameters have at every call, however they were written, and Mask::frozen those it
/// was made with. The mask itself and its parameters stay as they are: what changes is a copy by Mask::rebuild.
void expect_follows_parameters(const Mask& mask);

}  // namespace topomask::testing
