#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "core/checks.h"
#include "core/philox.h"
#include "topomask/nn/point_clouds.h"

namespace topomask {
namespace {

constexpr const char* kCamerasOp = "Cameras";

at::Tensor checked_matrices(const char* name, const at::Tensor& given, int64_t size) {
  TORCH_CHECK(given.defined() && given.is_cpu() && given.scalar_type() == at::kDouble && given.dim() == 4 &&
                  given.size(2) == size && given.size(3) == size,
              kCamerasOp, ": ", name, " must be float64 [B, C, ", size, ", ", size, "] on cpu, got ", describe(given));
  return given;
}

/// m·x for m [B, C, 3, 3] and x [B, C, R, 3]. Not under autocast: bfloat16 would move a point by millimetres.
at::Tensor turned(const at::Tensor& m, const at::Tensor& x) {
  const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);
  return at::matmul(x, m.mT());
}

}  // namespace

Cameras::Cameras(const at::Tensor& intrinsics, const at::Tensor& poses, int64_t height, int64_t width,
                 const at::TensorOptions& options)
    : height_(height), width_(width) {
  const at::Tensor k = checked_matrices("intrinsics", intrinsics, 3), pose = checked_matrices("poses", poses, 4);
  TORCH_CHECK(k.sizes().slice(0, 2) == pose.sizes().slice(0, 2), kCamerasOp, ": poses must be [", k.size(0), ", ",
              k.size(1), ", 4, 4] as intrinsics say, got ", describe(pose));
  TORCH_CHECK(height >= 1 && width >= 1, kCamerasOp, ": height and width must be >= 1, got ", height, " and ", width);
  const at::Tensor rotation = pose.slice(2, 0, 3).slice(3, 0, 3);
  // In double before anything is rounded, and contiguous: they may be moved to a GPU.
  origins_ = pose.slice(2, 0, 3).select(3, 3).contiguous().to(options);
  to_world_ = at::matmul(rotation, at::linalg_inv(k)).contiguous().to(options);
  to_image_ = at::matmul(k, rotation.mT()).contiguous().to(options);
}

at::Tensor Cameras::all_pixels() const {
  return at::arange(pixels(), origins_.options().dtype(at::kLong)).expand({scenes(), cameras(), pixels()});
}

at::Tensor Cameras::directions(const at::Tensor& pixels) const {
  TORCH_CHECK(pixels.dim() == 3 && pixels.size(0) == scenes() && pixels.size(1) == cameras() &&
                  pixels.scalar_type() == at::kLong,
              kCamerasOp, ": pixels must be int64 [B = ", scenes(), ", C = ", cameras(), ", R], got ",
              describe(pixels));
  const at::ScalarType type = origins_.scalar_type();
  const at::Tensor column = pixels.remainder(width_).to(type) + 0.5, row = pixels.div(width_, "floor").to(type) + 0.5;
  return turned(to_world_, at::stack({column, row, at::ones_like(row)}, -1));
}

Rays Cameras::rays(const at::Tensor& pixels) const {
  const at::Tensor along = directions(pixels);
  return {origins_.unsqueeze(2).expand_as(along).flatten(1, 2),
          (along / along.square().sum(-1, true).sqrt()).flatten(1, 2), cameras()};
}

at::Tensor Cameras::unproject(const at::Tensor& depth) const {
  TORCH_CHECK(depth.dim() == 4 && depth.size(0) == scenes() && depth.size(1) == cameras() && depth.size(2) == height_ &&
                  depth.size(3) == width_,
              kCamerasOp, ": depth must be [", scenes(), ", ", cameras(), ", ", height_, ", ", width_, "], got ",
              describe(depth));
  return origins_.unsqueeze(2) + directions(all_pixels()) * depth.flatten(2).unsqueeze(-1);
}

at::Tensor Cameras::project(const at::Tensor& points) const {
  TORCH_CHECK(points.dim() == 3 && points.size(0) == scenes() && points.size(2) == 3, kCamerasOp,
              ": points must be [B = ", scenes(), ", N, 3], got ", describe(points));
  const at::Tensor seen = turned(to_image_, points.unsqueeze(1) - origins_.unsqueeze(2));
  const at::Tensor depth = seen.slice(-1, 2);
  return at::cat({seen.slice(-1, 0, 2) / depth, depth}, -1);
}

at::Tensor subsample_keys(uint64_t seed, uint64_t item, int64_t count) {
  constexpr uint32_t kSubsample = 0x5AB5;  // apart from what else is drawn from a seed
  TORCH_CHECK(count >= 0 && count <= INT32_MAX, "subsample_keys: count must be in [0, 2^31-1], got ", count);
  at::Tensor keys = at::empty({count}, at::kInt);
  auto* key = keys.mutable_data_ptr<int32_t>();
  at::parallel_for(0, count, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const PhiloxWords words =
          philox({static_cast<uint32_t>(p), static_cast<uint32_t>(item), static_cast<uint32_t>(item >> 32), kSubsample},
                 philox_key(seed));
      key[p] = static_cast<int32_t>(words.a >> 1);
    }
  });
  return keys;
}

at::Tensor subsample(const at::Tensor& keys, const at::Tensor& valid, int64_t count) {
  TORCH_CHECK(keys.dim() == 2 && keys.scalar_type() == at::kInt && keys.size(1) >= 1,
              "subsample: keys must be int32 [B, P >= 1], got ", describe(keys));
  TORCH_CHECK(valid.sizes() == keys.sizes() && valid.scalar_type() == at::kBool && valid.device() == keys.device(),
              "subsample: valid must be bool like keys, ", describe(keys), ", got ", describe(valid));
  TORCH_CHECK(count >= 0, "subsample: count must be >= 0, got ", count);
  // 2³¹ sorts after every key.
  const at::Tensor behind = at::where(valid, keys.to(at::kLong), int64_t{1} << 31);
  const at::Tensor order = std::get<1>(behind.sort(/*stable=*/true, 1, /*descending=*/false));
  const at::Tensor known = valid.sum(1, true).clamp_min(1);
  return order.gather(1, at::arange(count, known.options()).unsqueeze(0).remainder(known));
}

}  // namespace topomask
