#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <vector>

#include "topomask/nn/vit.h"

namespace topomask {

/// Transformer blocks over tokens that are the nodes of a grid, with learned positions: [B, N, width] → [B, width], the
/// CLS token or the mean of all tokens, normalised.
class GridEncoder final : public torch::nn::Module {
 public:
  /// `options` gives the blocks: depth, width, heads, variant and so on. `axes` are the sides of the grid.
  GridEncoder(const ViTOptions& options, const std::vector<int64_t>& axes, uint64_t seed, at::Generator& generator);

  at::Tensor forward(const at::Tensor& tokens);
  const std::vector<std::shared_ptr<TransformerBlock>>& blocks() const { return blocks_; }

 private:
  double dropout_;
  at::Tensor positions_, cls_;
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  torch::nn::LayerNorm norm_;
};

}  // namespace topomask
