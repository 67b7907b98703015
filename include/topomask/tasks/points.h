#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/tasks/task.h"

namespace TOPOMASK_API topomask {

/// An episode that a trained model continues from its first two frames: what a film strip shows.
struct RolloutView {
  std::string kind;          ///< of the episode
  at::Tensor truth;          ///< uint8 [S, C, H, W, 3]: the frames that follow
  at::Tensor prediction;     ///< uint8, likewise: as the model expects them
  at::Tensor encoded;        ///< uint8, likewise: the true frames through encoder and renderer
  std::vector<double> ssim;  ///< [S], of the prediction, mean over cameras
};

/// The rollout of episode `place` of a split, of a task of points whose model is made and has its weights; at most
/// `most_steps` steps. `place` counts in the split.
RolloutView view_rollout(Task& task, const std::string& split, int64_t place, int64_t most_steps);

}  // namespace topomask
