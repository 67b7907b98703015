#include "topomask/nn/vit.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "core/checks.h"
#include "nn/initialise.h"
#include "nn/layers.h"
#include "topomask/nn/variants.h"
#include "topomask/nn/walk_pool.h"

namespace topomask {
namespace {

ViTOptions checked(const ViTOptions& o) {
  const auto positive = [](const char* name, int64_t value) {
    TORCH_CHECK(value >= 1, "ViT: ", name, " must be >= 1, got ", value);
  };
  o.check();
  positive("image_size", o.image_size);
  positive("channels", o.channels);
  positive("classes", o.classes);
  TORCH_CHECK(o.image_size % o.patch_size == 0, "ViT: patch_size must divide image_size ", o.image_size, ", got ",
              o.patch_size);
  TORCH_CHECK(o.width % o.heads == 0, "ViT: heads must divide width ", o.width, ", got ", o.heads);
  checked_product("ViT", "the inputs of a patch, channels x patch_size x patch_size,",
                  {o.channels, o.patch_size, o.patch_size}, std::numeric_limits<int32_t>::max());
  checked_product("ViT", "the positions, patches x width,", {o.grid(), o.grid(), o.width},
                  std::numeric_limits<int32_t>::max());
  return o;
}

}  // namespace

ViT::ViT(const ViTOptions& options, uint64_t seed)
    : options_(checked(options)),
      embedding_(register_module(
          "embedding", torch::nn::Linear(options.channels * options.patch_size * options.patch_size, options.width))),
      norm_(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})))),
      head_(register_module("head", torch::nn::Linear(options.width, options.classes))) {
  positions_ = register_parameter("positions", at::zeros({options_.tokens(), options_.width}));
  if (options_.cls_token) cls_ = register_parameter("cls", at::zeros({options_.width}));
  VariantSetting setting{options_, 0, seed, at::detail::createCPUGenerator(seed),
                         std::make_shared<WalkPool>(options_, seed)};
  for (; setting.layer < options_.depth; ++setting.layer) {
    const auto hidden = std::max<int64_t>(1, std::llround(options_.mlp_ratio * static_cast<double>(options_.width)));
    auto attention = std::make_shared<MultiheadAttention>(options_.width, options_.heads, make_variant(setting));
    blocks_.push_back(register_module(
        "block" + std::to_string(setting.layer),
        std::make_shared<TransformerBlock>(options_.width, hidden, options_.dropout, std::move(attention))));
  }
  initialise(*this, setting.generator);
}

at::Tensor ViT::embed(const at::Tensor& images) {
  const int64_t side = options_.grid(), p = options_.patch_size;
  TORCH_CHECK(images.defined() && images.dim() == 4 && images.size(1) == options_.channels &&
                  images.size(2) == options_.image_size && images.size(3) == options_.image_size &&
                  images.is_floating_point(),
              "ViT: images must be Float [B, ", options_.channels, ", ", options_.image_size, ", ", options_.image_size,
              "], got ", describe(images));
  // [B, C, side, p, side, p] → a row of C·p·p pixels for each patch.
  const at::Tensor patches = images.reshape({images.size(0), options_.channels, side, p, side, p});
  at::Tensor x = topomask::forward(
      embedding_,
      patches.permute({0, 2, 4, 1, 3, 5}).reshape({images.size(0), side * side, options_.channels * p * p}));
  if (options_.cls_token) x = at::cat({cls_.expand({images.size(0), 1, -1}).to(x.scalar_type()), x}, 1);
  return at::dropout(x + positions_, options_.dropout, is_training());
}

at::Tensor ViT::forward(const at::Tensor& images) {
  at::Tensor x = embed(images);
  for (const auto& block : blocks_) x = block->forward(x);
  x = topomask::forward(norm_, options_.cls_token ? x.select(1, 0) : x);
  return topomask::forward(head_, options_.cls_token ? x : x.mean(1));
}

std::vector<MaskPtr> ViT::masks() {
  std::vector<MaskPtr> masks;
  for (const auto& block : blocks_) {
    if (MaskPtr mask = block->attention().variant().mask()) masks.push_back(std::move(mask));
  }
  return masks;
}

at::Tensor ViT::attention_rows(const at::Tensor& images, int64_t token) {
  TORCH_CHECK(!blocks_.empty(), "attention_rows: the model must have at least one block, got depth 0");
  at::Tensor x = embed(images);
  std::vector<at::Tensor> rows;
  for (const auto& block : blocks_) {
    rows.push_back(block->row(x, token));
    x = block->forward(x);
  }
  return at::stack(rows);
}

at::Tensor ViT::modulation() const {
  std::vector<at::Tensor> layers;
  for (const auto& block : blocks_) {
    if (at::Tensor layer = block->attention().variant().modulation(); layer.defined())
      layers.push_back(std::move(layer));
  }
  return layers.empty() ? at::Tensor() : at::stack(layers);
}

int64_t ViT::parameter_count() const {
  int64_t count = 0;
  for (const at::Tensor& p : parameters()) count += p.numel();
  return count;
}

}  // namespace topomask
