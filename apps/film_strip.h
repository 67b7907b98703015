#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace topomask::apps {

/// Frames side by side: in the first row the truth, in the second the prediction, in the third the difference, mid-grey
/// where they are equal and brighter where the prediction is brighter. truth and prediction uint8 [S, H, W, 3]; →
/// uint8 [3, height, width], white between frames.
at::Tensor film_strip(const at::Tensor& truth, const at::Tensor& prediction);

/// Images uint8 [3, h, w] one below the other, white to the right of narrow ones.
at::Tensor below_each_other(const std::vector<at::Tensor>& images);

}  // namespace topomask::apps
