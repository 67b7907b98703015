#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// A JPEG or PNG file, recognised by its content: uint8 [3, H, W] (grey becomes colour, transparency white). Files
/// whose header announces more than 2²⁸ pixels are refused before memory is allocated; a file that is cut short or
/// damaged is an error. `smallest_side` > 0: a JPEG may be decoded at a half, a quarter or an eighth of its size, as
/// long as both sides stay at least this long, which is several times faster.
at::Tensor read_image(const std::string& path, int64_t smallest_side = 0);

/// The middle of an image [C, H, W], of any dtype that torch resizes: the shorter side becomes `size` (bilinear, with
/// antialiasing), the longer one is cropped. [C, size, size]. Memory grows with the image and size², however long and
/// narrow the image is.
at::Tensor resize_image(const at::Tensor& image, int64_t size);

/// Writes uint8 [3, H, W] as a PNG, through a temporary name, so that a file is whole or absent.
void write_png(const std::string& path, const at::Tensor& image);

/// The same as bytes.
std::string encode_png(const at::Tensor& image);

/// Values as colours, uint8 [3, H, W] from [H, W]: 0 dark violet, over teal, to 1 yellow; NaN grey.
at::Tensor colour_map(const at::Tensor& values);

/// Panels, uint8 [3, H, W] of one shape, side by side in rows of `across` with white gaps, each pixel `scale` wide.
at::Tensor panels(const std::vector<at::Tensor>& images, int64_t across, int64_t scale);

}  // namespace topomask
