#include <ATen/ATen.h>

#include <utility>

#include "core/checks.h"
#include "nn/points/checkpoint.h"
#include "nn/seeded_generator.h"
#include "topomask/nn/point_model.h"

namespace topomask {

PointModel::PointModel(const PointModelOptions& options, uint64_t seed) : options_(options) {
  options.check();
  const SeededGenerator seeded(seed);
  encoder_ = register_module("encoder", std::make_shared<PixelEncoder>(options));
  interlacer_ = register_module("interlacer", std::make_shared<Interlacer>(options));
  renderer_ = register_module("renderer", std::make_shared<PointRenderer>(options));
}

PointModel::Encoded PointModel::encode(const at::Tensor& rgb, const at::Tensor& depth, const Cameras& cameras,
                                       const at::Tensor& keys) {
  constexpr const char* kOp = "PointModel::encode";
  TORCH_CHECK(rgb.dim() == 5 && depth.sizes() == rgb.sizes().slice(0, 4), kOp,
              ": rgb must be [B, C, H, W, 3] and depth [B, C, H, W], got ", describe(rgb), " and ", describe(depth));
  const int64_t scenes = rgb.size(0), pixels = rgb.size(1) * rgb.size(2) * rgb.size(3);
  TORCH_CHECK(keys.dim() == 2 && keys.size(0) == scenes && keys.size(1) == pixels, kOp, ": keys must be [B = ", scenes,
              ", C*H*W = ", pixels, "], got ", describe(keys));
  const at::Tensor chosen = subsample(keys, depth.view({scenes, pixels}) > 0, options_.particles);
  const at::Tensor places = cameras.unproject(depth).view({scenes, pixels, 3});
  const at::Tensor features =
      encoder_->forward(rgb.flatten(0, 1), depth.flatten(0, 1)).reshape({scenes, pixels, options_.features});
  const auto of_chosen = [&](const at::Tensor& x) {
    return x.gather(1, chosen.unsqueeze(-1).expand({-1, -1, x.size(2)}));
  };
  return {{of_chosen(places), of_chosen(features)}, chosen};
}

std::vector<PointCloud> PointModel::rollout(const PointCloud& before, const PointCloud& now, const at::Tensor& actions,
                                            int64_t steps) {
  constexpr const char* kOp = "PointModel::rollout";
  TORCH_CHECK(steps >= 0, kOp, ": steps must be >= 0, got ", steps);
  TORCH_CHECK(actions.dim() == 4 && actions.size(1) == steps + 2, kOp, ": actions must be [B, steps + 2 = ", steps + 2,
              ", P, 3], got ", describe(actions));
  PointCloud earlier = before, later = now;
  std::vector<PointCloud> clouds;
  for (int64_t s = 0; s < steps; ++s) {
    const at::Tensor three = actions.narrow(1, s, 3).to(later.positions.scalar_type());
    const Segment step = [this](const std::vector<at::Tensor>& in) {
      const PointCloud next = interlacer_->forward({in[0], in[1]}, {in[2], in[3]}, in[4]);
      return std::vector<at::Tensor>{next.positions, next.features};
    };
    std::vector<at::Tensor> inputs{earlier.positions, earlier.features, later.positions, later.features, three};
    // Views of its own: what a step contributes to the gradient of a cloud is summed before it meets what others do, as
    // where it is computed again.
    if (!options_.recompute) {
      for (at::Tensor& x : inputs) x = x.view_as(x);
    }
    const auto next = options_.recompute ? recomputed(step, inputs, interlacer_->parameters()) : step(inputs);
    earlier = std::exchange(later, {next[0], next[1]});
    clouds.push_back(later);
  }
  return clouds;
}

}  // namespace topomask
