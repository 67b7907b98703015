#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "topomask/export.h"
#include "topomask/nn/vit.h"
#include "topomask/tasks/task.h"
#include "topomask/train/optimiser.h"

namespace TOPOMASK_API topomask {

/// The complete state of a run after `step` steps: with the configuration, it determines how the run continues, since
/// the order of the data, augmentation and dropout are functions of (seed, step).
struct Checkpoint {
  int64_t step = 0;
  double seconds = 0;      ///< spent so far
  std::string config;      ///< JSON of the RunConfig
  NamedTensors model;      ///< weights
  NamedTensors average;    ///< their moving average; empty where there is none
  NamedTensors best;       ///< those that did best on validation data; empty where they are not asked for
  NamedTensors optimiser;  ///< moments
  at::Tensor best_score;   ///< of `best`, double [3]: accuracy, loss, evaluations since
  at::Tensor losses;       ///< of the steps since the last line of metrics, float32; undefined where there are none

  /// The weights that the run is judged by: the best ones, or the average, or the last. What an average does not have,
  /// such as the running statistics of batch norm, is that of the last.
  NamedTensors judged() const {
    NamedTensors weights = best.empty() ? average : best;
    weights.insert(model.begin(), model.end());
    return weights;
  }
};

/// What it is called in the folder of a run.
inline constexpr const char* kCheckpointName = "checkpoint.safetensors";

/// One safetensors file: weights under their names, the average under `average/`, the best ones under `best/`, the
/// optimiser's moments under `optimiser/`, losses as `train/losses`, the best score as `train/best`; step, seconds and
/// configuration are strings of its metadata. It is written next to `path` under a temporary name and renamed when it
/// is whole and on the disk, so that `path` always is the last checkpoint that could be written.
void save_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& path);

/// Checks length and checksum before anything is parsed: a file that was cut, or in which a bit was flipped, is refused
/// with its name. Nothing in the file is executed, and no size it names is trusted. A checkpoint.pt of earlier versions
/// is refused as such.
Checkpoint load_checkpoint(const std::filesystem::path& path);

/// A module's parameters, and the running statistics of normalisation layers, by name, sharing their memory, and back.
/// `load_weights` refuses other names and shapes; with `other_head`, a head of another number of classes is left as it
/// is.
NamedTensors weights(const torch::nn::Module& model);
void load_weights(torch::nn::Module& model, const NamedTensors& weights, bool other_head = false);

/// A task of a checkpoint with its model, in the weights that the run is judged by, ready to classify. `change` may
/// alter the configuration before: where the data is, how large batches are.
struct LoadedTask {
  std::unique_ptr<Task> task;
  int64_t step = 0;
};
LoadedTask load_task(const std::filesystem::path& checkpoint, at::Device device = at::kCPU,
                     const std::function<void(RunConfig&)>& change = {});

/// The vision transformer of a checkpoint, likewise. A checkpoint of another task is an error.
struct LoadedModel {
  std::shared_ptr<ViT> model;
  RunConfig config;
  int64_t step = 0;
};
LoadedModel load_model(const std::filesystem::path& checkpoint, at::Device device = at::kCPU);

}  // namespace topomask
