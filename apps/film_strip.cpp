#include "film_strip.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace topomask::apps {
namespace {

constexpr int64_t kStripGap = 2;  // pixels
constexpr int kStripWhite = 255;

/// uint8 [S, H, W, 3] as [3, H + gap, S·(W + gap)].
at::Tensor strip_row(const at::Tensor& frames) {
  return at::constant_pad_nd(frames.permute({0, 3, 1, 2}), {0, kStripGap, 0, kStripGap}, kStripWhite)
      .permute({1, 2, 0, 3})
      .flatten(2);
}

}  // namespace

at::Tensor film_strip(const at::Tensor& truth, const at::Tensor& prediction) {
  TORCH_CHECK(truth.dim() == 4 && truth.size(3) == 3 && truth.scalar_type() == at::kByte &&
                  prediction.sizes() == truth.sizes() && prediction.scalar_type() == at::kByte,
              "film_strip: truth and prediction must be uint8 [S, H, W, 3], got ", truth.sizes(), " and ",
              prediction.sizes());
  const at::Tensor difference = ((prediction.to(at::kInt) - truth.to(at::kInt)).div(2, "floor") + 128).to(at::kByte);
  return at::cat({strip_row(truth), strip_row(prediction), strip_row(difference)}, 1).contiguous();
}

at::Tensor below_each_other(const std::vector<at::Tensor>& images) {
  TORCH_CHECK(!images.empty(), "below_each_other: images must be given, got none");
  int64_t width = 0;
  for (const at::Tensor& image : images) width = std::max(width, image.size(2));
  std::vector<at::Tensor> padded;
  for (const at::Tensor& image : images) {
    padded.push_back(at::constant_pad_nd(image, {0, width - image.size(2), 0, 2 * kStripGap}, kStripWhite));
  }
  return at::cat(padded, 1).contiguous();
}

}  // namespace topomask::apps
