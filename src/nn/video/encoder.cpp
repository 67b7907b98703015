#include "nn/video/encoder.h"

#include <ATen/ATen.h>

#include "nn/layers.h"
#include "topomask/nn/variants.h"
#include "topomask/nn/walk_pool.h"

namespace topomask {

GridEncoder::GridEncoder(const ViTOptions& options, const std::vector<int64_t>& axes, uint64_t seed,
                         at::Generator& generator)
    : dropout_(options.dropout),
      norm_(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})))) {
  VariantSetting setting{options, 0, seed, generator, std::make_shared<WalkPool>(options, seed, axes), axes};
  positions_ =
      register_parameter("positions", at::zeros({setting.num_nodes() + setting.global_tokens(), options.width}));
  if (options.cls_token) cls_ = register_parameter("cls", at::zeros({options.width}));
  const auto hidden = std::max<int64_t>(1, std::llround(options.mlp_ratio * static_cast<double>(options.width)));
  for (; setting.layer < options.depth; ++setting.layer) {
    auto attention = std::make_shared<MultiheadAttention>(options.width, options.heads, make_variant(setting));
    blocks_.push_back(
        register_module("block" + std::to_string(setting.layer),
                        std::make_shared<TransformerBlock>(options.width, hidden, dropout_, std::move(attention))));
  }
}

at::Tensor GridEncoder::forward(const at::Tensor& tokens) {
  at::Tensor x = tokens;
  if (cls_.defined()) x = at::cat({cls_.expand({x.size(0), 1, -1}).to(x.scalar_type()), x}, 1);
  x = at::dropout(x + positions_, dropout_, is_training());
  for (const auto& block : blocks_) x = block->forward(x);
  return cls_.defined() ? topomask::forward(norm_, x.select(1, 0)) : topomask::forward(norm_, x).mean(1);
}

}  // namespace topomask
