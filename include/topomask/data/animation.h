#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// Images, uint8 [3, H, W] of one shape, as an animated PNG: each is shown for `milliseconds`, over and over. Programs
/// that know PNG alone show the first.
std::string encode_animation(const std::vector<at::Tensor>& images, int64_t milliseconds);

/// The same as a file, through a temporary name.
void write_animation(const std::string& path, const std::vector<at::Tensor>& images, int64_t milliseconds);

}  // namespace topomask
