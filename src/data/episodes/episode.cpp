#include <ATen/ATen.h>

#include <cmath>

#include "core/checks.h"
#include "data/episodes/shard.h"

namespace topomask {
namespace {

constexpr int64_t kMostObjects = 256 - kFirstObject;
constexpr double kUnitLength = 1e-3;  // how far a quaternion's length may be from 1

void check_tensor(const char* name, const at::Tensor& tensor, at::ScalarType type, at::IntArrayRef shape) {
  TORCH_CHECK(tensor.defined() && tensor.scalar_type() == type && tensor.device().is_cpu() && tensor.sizes() == shape,
              "episode: ", name, " must be ", type, shape, " on cpu, got ", describe(tensor));
  if (at::isFloatingType(type)) check_finite("episode", name, tensor);
}

at::Tensor world_rotation(const at::Tensor& poses) {
  return poses.narrow(1, 0, 3).narrow(2, 0, 3);
}

}  // namespace

void check_episode(const Episode& e) {
  TORCH_CHECK(std::isfinite(e.interval) && e.interval > 0, "episode: interval must be > 0, got ", e.interval);
  TORCH_CHECK(e.rgb.defined() && e.rgb.dim() == 5 && e.rgb.numel() > 0,
              "episode: rgb must be uint8 [T, C, H, W, 3] and not empty, got ", describe(e.rgb));
  TORCH_CHECK(e.joints.defined() && e.joints.dim() == 2, "episode: joints must be float32 [T, J], got ",
              describe(e.joints));
  TORCH_CHECK(e.action_points.defined() && e.action_points.dim() == 3,
              "episode: action_points must be float32 [T, P, 3], got ", describe(e.action_points));
  const int64_t t = e.frames(), c = e.cameras(), h = e.height(), w = e.width(), b = std::ssize(e.names);
  const int64_t j = e.joints.size(1), p = e.action_points.size(1);
  TORCH_CHECK(b <= kMostObjects, "episode: there must be at most ", kMostObjects, " objects, got ", b);
  check_tensor("rgb", e.rgb, at::kByte, {t, c, h, w, 3});
  check_tensor("depth", e.depth, at::kFloat, {t, c, h, w});
  check_tensor("ids", e.ids, at::kByte, {t, c, h, w});
  check_tensor("intrinsics", e.intrinsics, at::kDouble, {c, 3, 3});
  check_tensor("poses", e.poses, at::kDouble, {c, 4, 4});
  check_tensor("joints", e.joints, at::kFloat, {t, j});
  check_tensor("actions", e.actions, at::kFloat, {t, j});
  check_tensor("action_points", e.action_points, at::kFloat, {t, p, 3});
  check_tensor("bodies", e.bodies, at::kDouble, {t, b, 7});
  TORCH_CHECK(e.depth.min().item<float>() >= 0, "episode: depth must be at least 0, got ", e.depth.min().item<float>());
  const int64_t largest = e.ids.max().item<int64_t>();
  TORCH_CHECK(largest < kFirstObject + b, "episode: ids must be below ", kFirstObject + b, " for ", b, " objects, got ",
              largest);
  const at::Tensor focal = at::stack({e.intrinsics.select(1, 0).select(1, 0), e.intrinsics.select(1, 1).select(1, 1)});
  TORCH_CHECK(focal.min().item<double>() > 0, "episode: intrinsics must have focal lengths > 0, got ",
              focal.min().item<double>());
  if (b == 0) return;
  const at::Tensor off = (e.bodies.narrow(2, 3, 4).norm(2, -1) - 1).abs();
  TORCH_CHECK(off.max().item<double>() < kUnitLength,
              "episode: bodies must have quaternions of length 1, got one off by ", off.max().item<double>());
}

at::Tensor unproject(const at::Tensor& depth, const at::Tensor& intrinsics, const at::Tensor& poses) {
  TORCH_CHECK(depth.defined() && depth.dim() >= 3 && depth.is_floating_point(),
              "unproject: depth must be floating point [..., C, H, W], got ", describe(depth));
  const int64_t c = depth.size(-3), h = depth.size(-2), w = depth.size(-1);
  TORCH_CHECK(intrinsics.defined() && intrinsics.sizes() == at::IntArrayRef({c, 3, 3}),
              "unproject: intrinsics must be [", c, ", 3, 3], got ", describe(intrinsics));
  TORCH_CHECK(poses.defined() && poses.sizes() == at::IntArrayRef({c, 4, 4}), "unproject: poses must be [", c,
              ", 4, 4], got ", describe(poses));
  const auto options = intrinsics.options().dtype(at::kDouble);
  const at::Tensor u = (at::arange(w, options) + 0.5).expand({h, w});
  const at::Tensor v = (at::arange(h, options) + 0.5).unsqueeze(1).expand({h, w});
  const at::Tensor pixels = at::stack({u, v, at::ones_like(u)}, -1).reshape({h * w, 3});
  // Directions in the world with depth 1, in double precision; [C, H·W, 3].
  const at::Tensor from_pixel =
      at::matmul(world_rotation(poses.to(at::kDouble)), at::inverse(intrinsics.to(at::kDouble)));
  const at::Tensor direction = at::matmul(pixels, from_pixel.transpose(1, 2)).reshape({c, h, w, 3});
  const at::Tensor origin = poses.narrow(1, 0, 3).select(2, 3).reshape({c, 1, 1, 3});
  return direction.to(depth.options()) * depth.unsqueeze(-1) + origin.to(depth.options());
}

at::Tensor moved_objects(const Episode& episode, int64_t first, int64_t last, double distance, double angle) {
  for (const int64_t frame : {first, last}) {
    TORCH_CHECK(frame >= 0 && frame < episode.frames(), "moved_objects: frames must be in [0, ", episode.frames(),
                "), got ", frame);
  }
  const at::Tensor a = episode.bodies[first], b = episode.bodies[last];
  const at::Tensor shift = (a - b).narrow(1, 0, 3).norm(2, -1);
  // q and −q are one orientation, and |⟨q, p⟩| is the cosine of half the angle between two.
  const at::Tensor cosine = (a.narrow(1, 3, 4) * b.narrow(1, 3, 4)).sum(-1).abs().clamp(0, 1);
  return at::logical_or(shift > distance, cosine.acos() * 2 > angle);
}

at::Tensor moved_pixels(const Episode& episode, int64_t first, int64_t last) {
  const at::Tensor moved = moved_objects(episode, first, last);
  const at::Tensor still = at::zeros({kFirstObject}, moved.options());
  return at::cat({still, moved}).index({episode.ids[last].to(at::kLong)});
}

}  // namespace topomask
