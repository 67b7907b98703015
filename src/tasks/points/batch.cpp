#include "tasks/points/batch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "core/philox.h"

namespace topomask {
namespace {

int64_t unpacked_bytes(const Episode& episode) {
  int64_t bytes = 0;
  for (const at::Tensor* tensor : {&episode.rgb, &episode.depth, &episode.ids, &episode.action_points}) {
    bytes += static_cast<int64_t>(tensor->nbytes());
  }
  return bytes;
}

/// Pixels whose colours differ by more than noise from the last seen frame: bool [S, C, H·W].
at::Tensor changed_pixels(const Episode& episode, int64_t last, int64_t steps) {
  constexpr int kNoise = 24;  // of three channels together
  const at::Tensor seen = episode.rgb[last].to(at::kShort),
                   next = episode.rgb.narrow(0, last + 1, steps).to(at::kShort);
  return (next - seen).abs().sum(-1).gt(kNoise).flatten(2);
}

/// int64 [steps, cameras, rays] below `range`, from counters: the first `among` of each camera and step are among those
/// that `changed` marks, where it marks any.
at::Tensor random_pixels(uint64_t seed, uint64_t draw, at::IntArrayRef shape, int64_t range, const at::Tensor& changed,
                         int64_t among) {
  constexpr uint32_t kRays = 0x4A75;  // apart from what else is drawn from a seed
  at::Tensor pixels = at::empty(shape, at::kLong);
  auto* pixel = pixels.mutable_data_ptr<int64_t>();
  const int64_t rays = shape[2];
  for (int64_t image = 0; image < shape[0] * shape[1]; ++image) {
    const at::Tensor marked = among > 0 ? changed.flatten(0, 1)[image].nonzero().flatten() : at::empty({0}, at::kLong);
    for (int64_t r = 0; r < rays; ++r) {
      const int64_t i = image * rays + r;
      const PhiloxWords words =
          philox({static_cast<uint32_t>(i), static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32), kRays},
                 philox_key(seed));
      const bool from_marked = r < among && marked.numel() > 0;
      const int64_t place = random_below(words.a, static_cast<uint32_t>(from_marked ? marked.numel() : range));
      pixel[i] = from_marked ? marked.const_data_ptr<int64_t>()[place] : place;
    }
  }
  return pixels;
}

}  // namespace

EpisodeCache::EpisodeCache(const EpisodeDataOptions& options)
    : set_((options.check(), options.path)), room_(options.cache_mb * 1'000'000) {
  TORCH_CHECK(set_.size() > 0, "episodes: data.path must name at least one episode, got none in ", options.path);
  const EpisodeSummary& first = set_.summary(0);
  for (int64_t e = 0; e < set_.size(); ++e) {
    const EpisodeSummary& s = set_.summary(e);
    TORCH_CHECK(s.cameras == first.cameras && s.height == first.height && s.width == first.width &&
                    s.action_points == first.action_points,
                "episodes: ", s.file, ", episode ", s.place, " must have ", first.cameras, " cameras of ", first.height,
                " x ", first.width, " pixels and ", first.action_points, " action points as the first one, got ",
                s.cameras, " of ", s.height, " x ", s.width, " and ", s.action_points);
  }
}

std::shared_ptr<const Episode> EpisodeCache::episode(int64_t index) {
  if (const auto found = kept_.find(index); found != kept_.end()) return found->second;
  auto loaded = std::make_shared<const Episode>(set_.load(index));
  const int64_t bytes = unpacked_bytes(*loaded);
  if (bytes <= room_) {
    room_ -= bytes;
    kept_.emplace(index, loaded);
  }
  return loaded;
}

SceneBatch make_scenes(EpisodeCache& episodes, std::span<const Window> windows, const SceneTargets& targets,
                       uint64_t seed, at::Device device) {
  const int64_t steps = targets.steps, rays = targets.rays;
  const auto among = static_cast<int64_t>(std::lround(targets.changed * static_cast<double>(rays)));
  std::vector<at::Tensor> intrinsics, poses, rgb, depth, keys, actions, pixels, colours, next_rgb, next_depth;
  int64_t height = 0, width = 0;
  for (const Window& window : windows) {
    const auto episode = episodes.episode(window.episode);
    height = episode->height();
    width = episode->width();
    TORCH_INTERNAL_ASSERT(window.first + 2 + steps <= episode->frames());
    const int64_t count = height * width, cameras = episode->cameras();
    intrinsics.push_back(episode->intrinsics);
    poses.push_back(episode->poses);
    rgb.push_back(episode->rgb.narrow(0, window.first, 2));
    depth.push_back(episode->depth.narrow(0, window.first, 2));
    for (const uint64_t frame : {0, 1}) {
      keys.push_back(subsample_keys(seed, 2 * window.draw + frame, cameras * count));
    }
    actions.push_back(episode->action_points.narrow(0, window.first, steps + 2));
    const at::Tensor changed = among > 0 ? changed_pixels(*episode, window.first + 1, steps) : at::Tensor();
    pixels.push_back(rays > 0 ? random_pixels(seed, window.draw, {steps, cameras, rays}, count, changed, among)
                              : at::arange(count, at::kLong).expand({steps, cameras, count}));
    if (targets.whole_frames) {
      next_rgb.push_back(episode->rgb.narrow(0, window.first + 2, steps));
      next_depth.push_back(episode->depth.narrow(0, window.first + 2, steps));
    }
    const at::Tensor next = episode->rgb.narrow(0, window.first + 2, steps).flatten(2, 3);  // [S, C, H·W, 3]
    const at::Tensor& chosen = pixels.back();
    colours.push_back(next.gather(2, chosen.unsqueeze(-1).expand({steps, cameras, chosen.size(2), 3})).flatten(1, 2));
  }
  const auto there = [&](const at::Tensor& x) { return x.to(device); };
  const auto scenes = std::ssize(windows);
  return {
      .cameras = Cameras(at::stack(intrinsics), at::stack(poses), height, width, at::device(device).dtype(at::kFloat)),
      .rgb = there(at::stack(rgb)),
      .depth = there(at::stack(depth)),
      .keys = there(at::stack(keys).view({scenes, 2, -1})),
      .actions = there(at::stack(actions)),
      .pixels = there(at::stack(pixels, 1)),
      .colours = there(at::stack(colours, 1)).to(at::kFloat) / 255,
      .next_rgb = targets.whole_frames ? there(at::stack(next_rgb, 1)) : at::Tensor(),
      .next_depth = targets.whole_frames ? there(at::stack(next_depth, 1)) : at::Tensor()};
}

}  // namespace topomask
