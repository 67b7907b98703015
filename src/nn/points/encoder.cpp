#include <ATen/ATen.h>

#include <algorithm>

#include "core/checks.h"
#include "topomask/nn/point_model.h"

namespace topomask {
namespace {

constexpr int64_t kImageChannels = 4;  // red, green, blue, depth

torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t size) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, size).padding(size / 2));
}

/// Groups of at least four channels where that divides them.
torch::nn::GroupNorm group_norm(int64_t channels) {
  int64_t groups = std::max<int64_t>(1, channels / 4);
  while (channels % groups != 0) --groups;
  return torch::nn::GroupNorm(torch::nn::GroupNormOptions(groups, channels));
}

constexpr double kColourScale = 4, kColourMargin = 0.01;

}  // namespace

at::Tensor feature_of_colour(const at::Tensor& colours) {
  return colours.clamp(kColourMargin, 1 - kColourMargin).logit() / kColourScale;
}

at::Tensor colour_of_feature(const at::Tensor& features) {
  return (features * kColourScale).sigmoid();
}

PixelEncoder::Level PixelEncoder::level(const std::string& name, int64_t in, int64_t out) {
  return {register_module(name + "_first", convolution(in, out, 3)),
          register_module(name + "_second", convolution(out, out, 3)),
          register_module(name + "_first_norm", group_norm(out)),
          register_module(name + "_second_norm", group_norm(out))};
}

PixelEncoder::PixelEncoder(const PointModelOptions& options) : colours_(options.colour_features) {
  int64_t in = kImageChannels;
  for (int64_t l = 0; l < options.encoder_levels; ++l) {
    const int64_t out = options.encoder_width << l;
    down_.push_back(level("down" + std::to_string(l), in, out));
    in = out;
  }
  for (int64_t l = options.encoder_levels - 2; l >= 0; --l) {
    const int64_t out = options.encoder_width << l;
    up_.push_back(level("up" + std::to_string(l), in + out, out));
    in = out;
  }
  last_ = register_module("last", convolution(in, options.features - (colours_ ? 3 : 0), 1));
}

at::Tensor PixelEncoder::apply(Level& level, const at::Tensor& x) {
  const at::Tensor half = at::relu(level.first_norm->forward(level.first->forward(x)));
  return at::relu(level.second_norm->forward(level.second->forward(half)));
}

at::Tensor PixelEncoder::forward(const at::Tensor& rgb, const at::Tensor& depth) {
  constexpr const char* kOp = "PixelEncoder";
  TORCH_CHECK(rgb.dim() == 4 && rgb.size(3) == 3, kOp, ": rgb must be [I, H, W, 3], got ", describe(rgb));
  TORCH_CHECK(depth.sizes() == rgb.sizes().slice(0, 3), kOp, ": depth must be [I, H, W] as rgb has them, got ",
              describe(depth));
  const int64_t multiple = int64_t{1} << (std::ssize(down_) - 1);
  TORCH_CHECK(rgb.size(1) % multiple == 0 && rgb.size(2) % multiple == 0, kOp, ": images must be multiples of ",
              multiple, " pixels high and wide for ", down_.size(), " levels, got ", rgb.size(1), " x ", rgb.size(2));
  const at::ScalarType type = last_->weight.scalar_type();
  const at::Tensor colours = rgb.scalar_type() == at::kByte ? rgb.to(type) / 255 : rgb.to(type);
  at::Tensor x = at::cat({(colours * 2 - 1).permute({0, 3, 1, 2}), depth.to(type).unsqueeze(1)}, 1);
  std::vector<at::Tensor> passed;
  for (size_t l = 0; l < down_.size(); ++l) {
    x = apply(down_[l], l == 0 ? x : at::avg_pool2d(x, {2, 2}));
    passed.push_back(x);
  }
  for (size_t u = 0; u < up_.size(); ++u) {
    const at::Tensor& skipped = passed[passed.size() - 2 - u];
    const at::Tensor larger = x.repeat_interleave(2, 2).repeat_interleave(2, 3);
    x = apply(up_[u], at::cat({larger.to(skipped.scalar_type()), skipped}, 1));
  }
  const at::Tensor learnt = last_->forward(x).flatten(2).mT().to(type);
  return colours_ ? at::cat({feature_of_colour(colours).flatten(1, 2), learnt}, -1) : learnt;
}

}  // namespace topomask
