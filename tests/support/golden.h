#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace topomask::testing {

/// A file of tests/golden: tensors by name, double precision. tests/golden/README.md says what every key means.
std::map<std::string, at::Tensor> golden(const std::string& name);

}  // namespace topomask::testing
