#pragma once

#include <ATen/Context.h>

#include <vector>

namespace topomask::testing {

inline bool has_cuda() {
  return at::hasCUDA() && at::getNumGPUs() > 0;
}

/// The CPU, and the first GPU where there is one.
inline std::vector<at::Device> devices() {
  std::vector<at::Device> all{at::kCPU};
  if (has_cuda()) all.emplace_back(at::kCUDA, 0);
  return all;
}

}  // namespace topomask::testing
