#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace topomask::apps {

/// Writes ASCII text into uint8 [3, H, W], dark, in letters of 5 × 7 dots of `scale` pixels each (and two below the
/// line); a character that has no letter is a space, and what lies outside the picture is left out.
void draw_text(const at::Tensor& image, int64_t top, int64_t left, const std::string& text, int64_t scale = 1);

/// The size of such text in pixels.
int64_t text_width(const std::string& text, int64_t scale = 1);
int64_t text_height(int64_t scale = 1);

}  // namespace topomask::apps
