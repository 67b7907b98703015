#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/internal_api.h"
#include "topomask/data/episode_options.h"
#include "topomask/data/episodes.h"
#include "topomask/nn/point_clouds.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Episodes, those unpacked before kept in memory up to a limit.
class EpisodeCache {
 public:
  explicit EpisodeCache(const EpisodeDataOptions& options);

  const EpisodeSet& set() const { return set_; }
  std::shared_ptr<const Episode> episode(int64_t index);

 private:
  EpisodeSet set_;
  int64_t room_;  // bytes
  std::map<int64_t, std::shared_ptr<const Episode>> kept_;
};

/// Frames first, first + 1, … of an episode.
struct Window {
  int64_t episode = 0, first = 0;
  uint64_t draw = 0;  ///< what is random about it is drawn from (seed, draw)
};

/// Windows of several episodes, on the model's device.
struct SceneBatch {
  Cameras cameras;
  at::Tensor rgb;              ///< uint8 [B, 2, C, H, W, 3]: frames t−2 and t−1
  at::Tensor depth;            ///< float32 [B, 2, C, H, W]
  at::Tensor keys;             ///< int32 [B, 2, C·H·W], of subsample
  at::Tensor actions;          ///< float32 [B, S + 2, P, 3]
  at::Tensor pixels;           ///< int64 [S, B, C, R]: whose colours are asked for
  at::Tensor colours;          ///< float32 [S, B, C·R, 3]
  at::Tensor next_rgb = {};    ///< uint8 [S, B, C, H, W, 3]: the frames that follow, where their clouds are wanted
  at::Tensor next_depth = {};  ///< float32 [S, B, C, H, W]

  int64_t scenes() const { return rgb.size(0); }
  int64_t steps() const { return actions.size(1) - 2; }
};

/// What of the frames that follow a batch holds.
struct SceneTargets {
  int64_t steps = 1;
  int64_t rays = 0;           ///< pixels of each camera and step that are drawn; 0: every pixel in its order
  double changed = 0;         ///< the first such fraction of them among pixels that differ from the last seen frame
  bool whole_frames = false;  ///< with next_rgb and next_depth
};
SceneBatch make_scenes(EpisodeCache& episodes, std::span<const Window> windows, const SceneTargets& targets,
                       uint64_t seed, at::Device device);

}  // namespace topomask
