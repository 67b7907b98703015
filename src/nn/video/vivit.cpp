#include "topomask/nn/vivit.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "core/checks.h"
#include "nn/initialise.h"
#include "nn/layers.h"
#include "nn/video/encoder.h"

namespace topomask {
namespace {

ViViTOptions complete(const ViViTOptions& o) {
  o.check();
  const auto positive = [](const char* name, int64_t value) {
    TORCH_CHECK(value >= 1, "ViViT: ", name, " must be >= 1, got ", value);
  };
  positive("image_size", o.image_size);
  positive("channels", o.channels);
  positive("classes", o.classes);
  positive("frames", o.frames);
  TORCH_CHECK(o.image_size % o.patch_size == 0, "ViViT: patch_size must divide image_size ", o.image_size, ", got ",
              o.patch_size);
  TORCH_CHECK(o.frames % o.tubelet == 0, "ViViT: tubelet must divide frames ", o.frames, ", got ", o.tubelet);
  TORCH_CHECK(o.width % o.heads == 0, "ViViT: heads must divide width ", o.width, ", got ", o.heads);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  checked_product("ViViT", "the inputs of a tubelet, tubelet x channels x patch_size x patch_size,",
                  {o.tubelet, o.channels, o.patch_size, o.patch_size}, kMost);
  checked_product("ViViT", "the positions, tubelets x width,", {o.steps(), o.grid(), o.grid(), o.width}, kMost);
  return o;
}

}  // namespace

ViViT::ViViT(const ViViTOptions& options, uint64_t seed)
    : options_(complete(options)),
      embedding_(register_module(
          "embedding", torch::nn::Linear(options.tubelet * options.channels * options.patch_size * options.patch_size,
                                         options.width))),
      head_(register_module("head", torch::nn::Linear(options.width, options.classes))) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const int64_t steps = options_.steps(), side = options_.grid();
  if (options_.joint()) {
    encoder_ = register_module(
        "joint", std::make_shared<GridEncoder>(options_, std::vector{steps, side, side}, seed, generator));
  } else {
    encoder_ =
        register_module("spatial", std::make_shared<GridEncoder>(options_, std::vector{side, side}, seed, generator));
    ViTOptions over_time = options_;
    over_time.depth = options_.temporal_depth;
    over_time.variant = options_.temporal_variant;
    // Walks over time are drawn apart from those over space.
    temporal_ = register_module("temporal", std::make_shared<GridEncoder>(over_time, std::vector{steps},
                                                                          seed + 0x9E3779B97F4A7C15U, generator));
  }
  initialise(*this, generator);
}

at::Tensor ViViT::embed(const at::Tensor& clips) {
  const int64_t side = options_.grid(), p = options_.patch_size, c = options_.channels, t = options_.steps();
  TORCH_CHECK(clips.defined() && clips.dim() == 5 && clips.size(1) == options_.frames && clips.size(2) == c &&
                  clips.size(3) == options_.image_size && clips.size(4) == options_.image_size &&
                  clips.is_floating_point(),
              "ViViT: clips must be Float [B, ", options_.frames, ", ", c, ", ", options_.image_size, ", ",
              options_.image_size, "], got ", describe(clips));
  // [B, t, frame, C, side, p, side, p] → a row of frame·C·p·p pixels for each tubelet.
  const at::Tensor tubelets = clips.reshape({clips.size(0), t, options_.tubelet, c, side, p, side, p});
  return topomask::forward(embedding_, tubelets.permute({0, 1, 4, 6, 2, 3, 5, 7})
                                           .reshape({clips.size(0), t, side * side, options_.tubelet * c * p * p}));
}

at::Tensor ViViT::encode_steps(const at::Tensor& clips) {
  TORCH_CHECK(!options_.joint(), "ViViT::encode_steps: attention must be factorised, got joint");
  return encoder_->forward(embed(clips).flatten(0, 1)).unflatten(0, {clips.size(0), options_.steps()});
}

at::Tensor ViViT::forward(const at::Tensor& clips) {
  if (options_.joint()) return topomask::forward(head_, encoder_->forward(embed(clips).flatten(1, 2)));
  return topomask::forward(head_, temporal_->forward(encode_steps(clips)));
}

std::vector<std::shared_ptr<GridEncoder>> ViViT::encoders() const {
  if (temporal_) return {encoder_, temporal_};
  return {encoder_};
}

std::vector<MaskPtr> ViViT::masks() {
  std::vector<MaskPtr> masks;
  for (const auto& encoder : encoders()) {
    for (const auto& block : encoder->blocks()) {
      if (MaskPtr mask = block->attention().variant().mask()) masks.push_back(std::move(mask));
    }
  }
  return masks;
}

at::Tensor ViViT::modulation() const {
  std::vector<at::Tensor> layers;
  for (const auto& encoder : encoders()) {
    for (const auto& block : encoder->blocks()) {
      if (at::Tensor f = block->attention().variant().modulation(); f.defined()) layers.push_back(std::move(f));
    }
  }
  return layers.empty() ? at::Tensor() : at::stack(layers);
}

int64_t ViViT::parameter_count() const {
  int64_t count = 0;
  for (const at::Tensor& p : parameters()) count += p.numel();
  return count;
}

}  // namespace topomask
