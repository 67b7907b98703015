#pragma once

// The headers that cost seconds to parse. Kernels on raw pointers do not see them.
// Of torch's inline functions nothing is hidden: they have static variables that must be one in the process, such as
// whether the number of threads of a thread is set.
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
