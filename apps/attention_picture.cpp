#include "attention_picture.h"

#include <ATen/ATen.h>

namespace topomask::apps {
namespace {

constexpr int64_t kTokensAveraged = 16;  // of those that a model without CLS averages over

}  // namespace

at::Tensor attention_maps(ViT& model, const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  const int64_t grid = model.options().grid();
  at::Tensor rows;  // [L, B, H, T]
  if (model.options().cls_token) {
    rows = model.attention_rows(images, 0).slice(-1, 1);
  } else {
    const int64_t tokens = grid * grid, step = std::max<int64_t>(1, tokens / kTokensAveraged);
    int64_t count = 0;
    for (int64_t token = 0; token < tokens; token += step, ++count) {
      const at::Tensor one = model.attention_rows(images, token);
      rows = rows.defined() ? rows + one : one;
    }
    rows = rows / static_cast<double>(count);
  }
  const at::Tensor maps = rows.mean(2).to(at::kCPU, at::kFloat);  // over heads
  return (maps / maps.amax(-1, true).clamp_min(1e-12)).clamp_min(0).reshape({maps.size(0), maps.size(1), grid, grid});
}

at::Tensor as_colour(const at::Tensor& image) {
  return image.size(0) == 3 ? image : image.expand({3, -1, -1}).contiguous();
}

at::Tensor overlay(const at::Tensor& image, const at::Tensor& map) {
  const at::Tensor colour = as_colour(image).to(at::kFloat);
  const at::Tensor large =
      at::upsample_bilinear2d(map.view({1, 1, map.size(0), map.size(1)}), {image.size(1), image.size(2)}, false)
          .squeeze(0)
          .clamp(0, 1);
  // Lit parts are tinted towards yellow, so that they show on dark pictures too.
  const at::Tensor light = at::tensor({255.0F, 200.0F, 40.0F}).view({3, 1, 1});
  return (colour * (0.35 + 0.45 * large) + light * (0.45 * large)).clamp(0, 255).to(at::kByte);
}

}  // namespace topomask::apps
