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

/// Colours in [0, 1] as features, log(c/(1 − c))/4 with c kept from 0 and 1 by a hundredth, and back.
at::Tensor feature_of_colour(const at::Tensor& colours);
at::Tensor colour_of_feature(const at::Tensor& features);

/// A U-Net (Ronneberger et al. 2015) from images to features of their pixels: two 3×3 convolutions with group norm and
/// ReLU at each level, means of 2×2 pixels down, repeated pixels up, joined with what came down; 1×1 at the end.
class PixelEncoder : public torch::nn::Module {
 public:
  explicit PixelEncoder(const PointModelOptions& options);

  /// rgb [I, H, W, 3] uint8, or floating in [0, 1], and depth [I, H, W] in metres → [I, H·W, features]. With colour
  /// features the first three are feature_of_colour of the pixel, whatever the weights.
  at::Tensor forward(const at::Tensor& rgb, const at::Tensor& depth);

 private:
  struct Level {
    torch::nn::Conv2d first{nullptr}, second{nullptr};
    torch::nn::GroupNorm first_norm{nullptr}, second_norm{nullptr};
  };
  Level level(const std::string& name, int64_t in, int64_t out);
  static at::Tensor apply(Level& level, const at::Tensor& x);

  bool colours_;
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
  at::Tensor context(const PointCloud& before, const PointCloud& now, const at::Tensor& actions) const;

  PointModelOptions options_;
  torch::nn::Linear embed_features_, embed_positions_, embed_displacements_, embed_context_{nullptr};
  at::Tensor arm_;    ///< [3]: how far particles follow the nearest point of the arm along each axis
  at::Tensor times_;  ///< [5, width]: particles at t−2, t−1, actions at t−2, t−1, t
  std::vector<std::shared_ptr<InterlacerBlock>> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear head_;
};

/// Colours of rays through a cloud, in the style of Point-NeRF (Xu et al. 2022). At each of S samples of a ray, the
/// nearest particles j at distances d_j are seen through annular kernels, w_cj = exp(−½((d_j − r_c)/b_c)²), as
/// Σ_j w_cj f_j/(1 + Σ_j w_cj) and o_c = Σ_j w_cj/(1 + Σ_j w_cj). A perceptron makes density, times the o of all
/// kernels together, so that empty space is empty, and colour of them; they are composed front to back over white.
///
/// Guided samples lie where the particles are that pass nearest to the ray, as seen from its origin: at their depths,
/// with optical depths times exp(−½(ρ² − ρ₀²)/(s·max(ρ₀, floor))²), ρ a particle's distance from the ray, ρ₀ the least.
/// Surfaces are as thick as particles are apart. Even samples lie between near and far, and stand for their intervals.
/// With colour features, the perceptron corrects the mean colour of the particles nearest to a sample.
class PointRenderer : public torch::nn::Module {
 public:
  explicit PointRenderer(const PointModelOptions& options);

  /// [B, R, 3] in [0, 1]. `jitter` [B, R, S] in [0, 1) places an even sample in its interval; undefined: in the middle.
  /// Guided samples need rays.viewpoints. Differentiable in positions, features and parameters; the choice of
  /// neighbours is not.
  at::Tensor forward(const PointCloud& cloud, const Rays& rays, const at::Tensor& jitter = {});

 private:
  struct Samples {
    at::Tensor points;   ///< [B, R, S, 3]
    at::Tensor lengths;  ///< [B, R, S] or fewer dimensions: optical depth for a density of 1
  };
  Samples even_samples(const Rays& rays, const at::Tensor& jitter) const;
  Samples guided_samples(const at::Tensor& positions, const Rays& rays, const at::Tensor& passing) const;
  at::Tensor slice(const PointCloud& cloud, const Rays& rays, const at::Tensor& jitter, const at::Tensor& passing);

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
