#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "topomask/data/video.h"
#include "topomask/export.h"
#include "topomask/tasks/task.h"

namespace TOPOMASK_API topomask {

/// The configuration with the model's frames, image size, channels and classes taken from the data where they are 0;
/// where they are not, they must agree.
RunConfig complete_config(const RunConfig& config, const VideoDataset& dataset);

/// Bytes as a model takes them: float32 in [-1, 1], on `device`.
at::Tensor prepare_clips(const at::Tensor& clips, at::Device device);

/// A clip and what a trained model takes it for.
struct ClipView {
  at::Tensor clip;           ///< uint8 [T, C, H, W]
  int64_t label = 0;         ///< its class
  at::Tensor probabilities;  ///< float32 [classes], on the CPU
};

/// Clip `place` of a split, of a task of video whose model is made and has its weights.
ClipView view_clip(Task& task, const std::string& split, int64_t place);

}  // namespace topomask
