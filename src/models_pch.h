#pragma once

// What models, data sets and training parse most; torch/torch.h would cost four times as much.
// Torch's inline functions stay visible: a process must have one copy of their static variables, such as whether the
// number of threads of a thread is set.
#pragma GCC visibility push(default)
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#pragma GCC visibility pop

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>
