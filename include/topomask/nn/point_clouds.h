#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// Particles of B scenes at one instant.
struct PointCloud {
  at::Tensor positions;  ///< [B, N, 3], metres, world
  at::Tensor features;   ///< [B, N, F]
};

/// Straight lines through the world, in B scenes.
struct Rays {
  at::Tensor origins;     ///< [B, R, 3]
  at::Tensor directions;  ///< [B, R, 3], unit vectors
  /// How many origins there are: as many rays of each, one origin after the other. 0: not known.
  int64_t viewpoints = 0;
};

/// C pinhole cameras in each of B scenes: x right, y down, z forward; the centre of the pixel in row v and column u is
/// at (u + ½, v + ½).
class Cameras {
 public:
  /// intrinsics [B, C, 3, 3] (K: pixels from camera coordinates) and poses [B, C, 4, 4] (world from camera), float64 on
  /// the CPU; what the functions return is of `options`.
  Cameras(const at::Tensor& intrinsics, const at::Tensor& poses, int64_t height, int64_t width,
          const at::TensorOptions& options = {});

  int64_t scenes() const { return origins_.size(0); }
  int64_t cameras() const { return origins_.size(1); }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  int64_t pixels() const { return height_ * width_; }
  const at::Tensor& origins() const { return origins_; }  ///< [B, C, 3]

  /// World directions of one metre of depth for pixels int64 [B, C, R], row·width + column; → [B, C, R, 3].
  at::Tensor directions(const at::Tensor& pixels) const;
  at::Tensor all_pixels() const;  ///< int64 [B, C, H·W]: every one
  /// Unit rays of pixels [B, C, R], cameras one after the other: [B, C·R, 3].
  Rays rays(const at::Tensor& pixels) const;

  /// World coordinates [B, C, H·W, 3] of the pixels with depths [B, C, H, W] along the optical axis; the camera's
  /// position where the depth is 0. Differentiable in depth.
  at::Tensor unproject(const at::Tensor& depth) const;
  /// Column, row and depth of points [B, N, 3] in each camera, [B, C, N, 3]: the inverse of unproject. Points in the
  /// plane of a camera have no finite column. Differentiable.
  at::Tensor project(const at::Tensor& points) const;

 private:
  int64_t height_, width_;
  at::Tensor origins_;   ///< [B, C, 3]
  at::Tensor to_world_;  ///< [B, C, 3, 3]: R·K⁻¹
  at::Tensor to_image_;  ///< [B, C, 3, 3]: K·Rᵀ
};

/// Random keys, int32 [count] on the CPU, from counters: the same for any number of threads, a function of (seed,
/// item).
at::Tensor subsample_keys(uint64_t seed, uint64_t item, int64_t count);

/// The places of `count` pixels of each scene, int64 [B, count]: those of the smallest keys (int32 [B, P], not
/// negative) among the valid ones (bool [B, P]). Where there are fewer, they are taken again in turn; where there is
/// none, pixel 0 of the order of keys stands in for all. Shapes do not depend on the data: nothing is read back from a
/// GPU.
at::Tensor subsample(const at::Tensor& keys, const at::Tensor& valid, int64_t count);

}  // namespace topomask
