#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace topomask {

/// The most pixels an image file may promise.
inline constexpr int64_t kLargestImagePixels = int64_t{1} << 28;

// Whole files as uint8 [H, W, 3]. Errors name the file.
at::Tensor decode_jpeg(const std::string& path, int64_t smallest_side);
at::Tensor decode_png(const std::string& path);

}  // namespace topomask
