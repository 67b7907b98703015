#pragma once

// The headers that cost seconds to parse. Kernels on raw pointers do not see them.
// Torch's inline functions stay visible: a process must have one copy of their static variables, such as whether the
// number of threads of a thread is set.
#pragma GCC visibility push(default)
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#pragma GCC visibility pop

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
