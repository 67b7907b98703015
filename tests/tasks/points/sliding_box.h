#pragma once

#include <ATen/ATen.h>

#include <filesystem>

#include "topomask/data/episodes.h"

namespace topomask::testing {

inline constexpr int64_t kSize = 16, kCameras = 2;

/// Two cameras above a table look down on a red box that slides along x, a pixel a frame.
inline Episode sliding_box(uint64_t seed, int64_t frames) {
  Episode e{.kind = "push", .seed = seed, .interval = 0.5, .names = {"box"}};
  const double focal = 16;  // pixels; a pixel is 1/16 m wide at a metre
  e.intrinsics = at::tensor({focal, 0.0, 8.0, 0.0, focal, 8.0, 0.0, 0.0, 1.0}, at::kDouble)
                     .view({1, 3, 3})
                     .repeat({kCameras, 1, 1});
  // x right, y towards the viewer, z down: a turn about x by 180 degrees, one metre up.
  e.poses = at::diag(at::tensor({1.0, -1.0, -1.0, 1.0}, at::kDouble)).repeat({kCameras, 1, 1});
  e.poses.select(1, 2).select(1, 3).fill_(1);
  e.rgb = at::full({frames, kCameras, kSize, kSize, 3}, 200, at::kByte);
  e.depth = at::ones({frames, kCameras, kSize, kSize});
  e.ids = at::full({frames, kCameras, kSize, kSize}, kTable, at::kByte);
  e.bodies = at::zeros({frames, 1, 7}, at::kDouble);
  e.bodies.select(2, 3).fill_(1);
  const int64_t row = 4 + static_cast<int64_t>(seed % 5);
  for (int64_t t = 0; t < frames; ++t) {
    const auto box = [&](const at::Tensor& of) { return of[t].slice(1, row, row + 4).slice(2, t, t + 4); };
    box(e.rgb).copy_(at::tensor({220, 30, 30}, at::kInt).to(at::kByte));
    box(e.depth).fill_(0.9);
    box(e.ids).fill_(kFirstObject);
    e.bodies[t][0][0] = 0.9 * static_cast<double>(t) / focal;  // the box is nearer: its pixels are smaller
  }
  e.joints = e.actions = at::zeros({frames, 2});
  e.action_points = at::rand({frames, 3, 3});
  return e;
}

inline void write_episodes(const std::filesystem::path& folder, int64_t count, int64_t frames = 6) {
  std::filesystem::create_directories(folder);
  EpisodeWriter writer((folder / "some.episodes").string());
  for (int64_t i = 0; i < count; ++i) writer.add(sliding_box(static_cast<uint64_t>(i), frames));
  writer.commit();
}

}  // namespace topomask::testing
