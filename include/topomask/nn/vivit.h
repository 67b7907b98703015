#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "topomask/export.h"
#include "topomask/mask.h"
#include "topomask/nn/vivit_options.h"

namespace TOPOMASK_API topomask {

class GridEncoder;

/// A video vision transformer (Arnab et al. 2021). A tubelet, patch_size x patch_size pixels of `tubelet` frames, is a
/// token; tokens lie on a grid of t x s x s, in row-major order.
///
/// Factorised: the spatial encoder takes the s x s tokens of each of the t steps separately, under a mask over the 2-D
/// grid; its CLS tokens (or means) go through the temporal encoder, a mask over the path of steps. Joint: one encoder
/// takes all tokens, under a mask over the 3-D grid. Kernel variants stay linear in t·s².
class ViViT final : public torch::nn::Module {
 public:
  /// Initial weights, walks and random features are functions of the seed. The walks are not part of the weights: a
  /// model whose weights are to be loaded is made with the seed that it had.
  explicit ViViT(const ViViTOptions& options, uint64_t seed = 0);

  at::Tensor forward(const at::Tensor& clips);  ///< float32 [B, T, C, S, S] → logits [B, classes]

  /// Tubelets as tokens, before positions: [B, t, s·s, width].
  at::Tensor embed(const at::Tensor& clips);
  /// Factorised: the output of the spatial encoder for each step, [B, t, width].
  at::Tensor encode_steps(const at::Tensor& clips);

  /// The mask of each layer that has one: of the spatial or joint encoder, then of the temporal one.
  std::vector<MaskPtr> masks();
  /// f or α of each of these layers and heads, [L, H, K]; undefined where there are none.
  at::Tensor modulation() const;

  const ViViTOptions& options() const { return options_; }
  int64_t parameter_count() const;

 private:
  std::vector<std::shared_ptr<GridEncoder>> encoders() const;

  ViViTOptions options_;
  torch::nn::Linear embedding_;
  std::shared_ptr<GridEncoder> encoder_;   // spatial or joint
  std::shared_ptr<GridEncoder> temporal_;  // null where joint
  torch::nn::Linear head_;
};

}  // namespace topomask
