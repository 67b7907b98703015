#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "topomask/export.h"
#include "topomask/nn/local_layer.h"
#include "topomask/nn/point_clouds.h"
#include "topomask/nn/point_options.h"

namespace TOPOMASK_API topomask {

/// A U-Net (Ronneberger et al. 2015) from images to features of their pixels: two 3×3 convolutions with group norm and
/// ReLU at each level, means of 2×2 pixels down, repeated pixels up, joined with what came down; 1×1 at the end.
class PixelEncoder : public torch::nn::Module {
 public:
  explicit PixelEncoder(const PointModelOptions& options);

  /// rgb [I, H, W, 3] uint8, or floating in [0, 1], and depth [I, H, W] in metres → [I, H·W, features].
  at::Tensor forward(const at::Tensor& rgb, const at::Tensor& depth);

 private:
  struct Level {
    torch::nn::Conv2d first{nullptr}, second{nullptr};
    torch::nn::GroupNorm first_norm{nullptr}, second_norm{nullptr};
  };
  Level level(const std::string& name, int64_t in, int64_t out);
  static at::Tensor apply(Level& level, const at::Tensor& x);

  std::vector<Level> down_, up_;
  torch::nn::Conv2d last_{nullptr};
};

/// A block: x + attention, then + local layer, then + perceptron, each of the norm of what it is added to.
class InterlacerBlock : public torch::nn::Module {
 public:
  explicit InterlacerBlock(const PointModelOptions& options);
  at::Tensor forward(const at::Tensor& x, const LocalStructure& structure);
  const std::shared_ptr<LocalLayer>& local() const { return local_; }

 private:
  at::Tensor attend(const at::Tensor& x);

  int64_t heads_;
  double offset_;
  torch::nn::LayerNorm attention_norm_, perceptron_norm_, local_norm_{nullptr};
  torch::nn::Linear qkv_, projection_, expand_, contract_;
  std::shared_ptr<LocalLayer> local_;
};

/// Next particles from those of two instants and the robot's actions. Tokens are the N particles of either instant and
/// 3P kinematic particles; the outputs of the later N are Δx = largest_step·tanh(·) and Δf.
class Interlacer : public torch::nn::Module {
 public:
  explicit Interlacer(const PointModelOptions& options);

  /// actions [B, 3, P, 3]: where the actions at t−2, t−1 and t put points of the arm. Differentiable in everything.
  PointCloud forward(const PointCloud& before, const PointCloud& now, const at::Tensor& actions);

 private:
  at::Tensor encoded(const at::Tensor& positions) const;

  PointModelOptions options_;
  torch::nn::Linear embed_features_, embed_positions_, embed_displacements_;
  at::Tensor times_;  ///< [5, width]: particles at t−2, t−1, actions at t−2, t−1, t
  std::vector<std::shared_ptr<InterlacerBlock>> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_;
};

/// Colours of rays through a cloud, in the style of Point-NeRF (Xu et al. 2022). At each of S samples between near and
/// far, the nearest particles j at distances d_j are seen through annular kernels, w_cj = exp(−½((d_j − r_c)/b_c)²), as
/// Σ_j w_cj f_j/(1 + Σ_j w_cj) and o_c = Σ_j w_cj/(1 + Σ_j w_cj). A perceptron makes density, times the o of all
/// kernels together, so that empty space is empty, and colour of them; they are composed front to back over white.
class PointRenderer : public torch::nn::Module {
 public:
  explicit PointRenderer(const PointModelOptions& options);

  /// [B, R, 3] in [0, 1]. `jitter` [B, R, S] in [0, 1) places a sample in its interval; undefined: in the middle.
  /// Differentiable in positions, features and parameters; the choice of neighbours is not.
  at::Tensor forward(const PointCloud& cloud, const Rays& rays, const at::Tensor& jitter = {});

 private:
  at::Tensor slice(const PointCloud& cloud, const Rays& rays, const at::Tensor& jitter);

  PointModelOptions options_;
  torch::nn::Linear first_, second_, density_, colour_;
};

/// The whole model.
class PointModel : public torch::nn::Module {
 public:
  PointModel(const PointModelOptions& options, uint64_t seed);

  const PointModelOptions& options() const { return options_; }
  PointRenderer& renderer() { return *renderer_; }
  Interlacer& interlacer() { return *interlacer_; }

  struct Encoded {
    PointCloud cloud;
    at::Tensor pixels;  ///< int64 [B, N]: camera·H·W + pixel of each particle
  };
  /// Particles of a frame: rgb [B, C, H, W, 3], depth [B, C, H, W] (0: nothing), keys int32 [B, C·H·W].
  Encoded encode(const at::Tensor& rgb, const at::Tensor& depth, const Cameras& cameras, const at::Tensor& keys);

  /// `steps` clouds that follow two, each from the last two and three rows of actions [B, steps + 2, P, 3]. Gradients
  /// flow through all steps. With options.recompute a step keeps its input and is computed again in the backward pass:
  /// the same gradients bit for bit in float32.
  std::vector<PointCloud> rollout(const PointCloud& before, const PointCloud& now, const at::Tensor& actions,
                                  int64_t steps);

 private:
  PointModelOptions options_;
  std::shared_ptr<PixelEncoder> encoder_;
  std::shared_ptr<Interlacer> interlacer_;
  std::shared_ptr<PointRenderer> renderer_;
};

}  // namespace topomask
