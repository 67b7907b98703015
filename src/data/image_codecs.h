#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

#include "io/origin.h"

namespace topomask {

/// Why an image of this size is refused before memory is taken, or an empty text: 2²⁸ pixels are the most, and beyond
/// 2²² of them no more than `pixels_per_byte` for each of the `bytes` of the file.
std::string refused_size(int64_t width, int64_t height, int64_t bytes, int64_t pixels_per_byte);

// Whole files of `bytes` bytes as uint8 [H, W, 3]. Errors name the file.
at::Tensor decode_jpeg(const std::string& path, int64_t bytes, int64_t smallest_side);
/// The same of a file in memory, such as a frame of a video.
at::Tensor decode_jpeg(const io::Origin& origin, std::span<const uint8_t> file, int64_t smallest_side);
at::Tensor decode_png(const std::string& path, int64_t bytes);

}  // namespace topomask
