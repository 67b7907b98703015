#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "topomask/nn/point_model.h"

namespace topomask::testing {

/// Intrinsics and poses of two cameras in each of some scenes, looking about.
inline std::pair<at::Tensor, at::Tensor> two_cameras(int64_t scenes) {
  const at::Tensor k = at::zeros({scenes, 2, 3, 3}, at::kDouble), pose = at::zeros({scenes, 2, 4, 4}, at::kDouble);
  for (int64_t b = 0; b < scenes; ++b) {
    for (int64_t c = 0; c < 2; ++c) {
      k[b][c] =
          at::tensor({5.0 + static_cast<double>(b), 0.1, 3.1, 0.0, 6.0, 2.2, 0.0, 0.0, 1.0}, at::kDouble).view({3, 3});
      const auto [q, r] = at::linalg_qr(at::rand({3, 3}, at::kDouble));
      pose[b][c].slice(0, 0, 3).slice(1, 0, 3).copy_(q * at::linalg_det(q));
      pose[b][c].slice(0, 0, 3).select(1, 3).copy_(at::rand({3}, at::kDouble));
      pose[b][c][3][3] = 1;
    }
  }
  return {k, pose};
}

/// A model that is small enough for finite differences.
inline PointModelOptions small_options(const std::string& local = "grf") {
  PointModelOptions options;
  options.particles = 24;
  options.features = 4;
  options.encoder_width = 4;
  options.encoder_levels = 2;
  options.width = 8;
  options.blocks = 2;
  options.heads = 2;
  options.local_features = 4;
  options.local = local;
  options.message_neighbours = 4;
  options.anchor_stride = 3;
  options.render_neighbours = 5;
  options.render_width = 8;
  options.guided = 4;
  options.samples = 6;
  return options;
}

/// Some weights are zero at first; with these everything has a gradient.
inline void shake(torch::nn::Module& model, at::ScalarType type = at::kDouble) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& p : model.parameters()) p.add_(at::randn_like(p) * 0.1);
  model.to(type);
}

inline PointCloud random_cloud(int64_t scenes, int64_t particles, int64_t features, at::ScalarType type = at::kDouble) {
  return {at::rand({scenes, particles, 3}, type), at::randn({scenes, particles, features}, type)};
}

}  // namespace topomask::testing
