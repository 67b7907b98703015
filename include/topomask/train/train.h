#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/run_config.h"
#include "topomask/tasks/images.h"
#include "topomask/tasks/task.h"
#include "topomask/train/metrics.h"

namespace TOPOMASK_API topomask {

/// What a caller may observe and control while training.
struct TrainHooks {
  std::function<void(const TrainMetrics&)> on_metrics = {};  ///< every log_every steps
  std::function<void(const EvalMetrics&)> on_evaluation = {};
  /// Asked after every step with the number of steps made; true: write a checkpoint and return, to be continued.
  std::function<bool(int64_t)> stop = {};
  bool progress = true;  ///< a bar on stderr, where that is a terminal
  bool restart = false;  ///< begin at step 0 even where the folder has a checkpoint, which is then removed
};

struct TrainResult {
  bool finished = false;                          ///< false: a hook stopped it
  int64_t steps = 0;                              ///< made in all
  int64_t resumed_from = 0;                       ///< the step of the checkpoint it went on from; 0: the beginning
  std::map<std::string, Evaluation> evaluations;  ///< by split, at the end
  int64_t parameters = 0;
  double seconds = 0;         ///< of all slices of the run, without reading data sets
  double median_step_ms = 0;  ///< over the logged intervals of this slice; of a run that had ended, as then
  double peak_memory_mb = 0;
};

/// Trains as the configuration says, in a folder that holds, from then on, config.json (complete), metrics.jsonl,
/// TensorBoard events, checkpoint.safetensors and, when finished, summary.json. Where the folder has a checkpoint,
/// training goes on from there, as if it had never stopped: on the CPU, with as many threads, weights and metrics (all
/// but times and memory) come out bit for bit the same. A checkpoint of another configuration is refused, naming the
/// first key that differs; keys that only say where and how often (device, paths, workers, intervals of logs,
/// checkpoints and evaluations) may differ. A loss or weights that are not finite are an error naming the step, and are
/// never written to a checkpoint.
TrainResult train(const RunConfig& config, const std::filesystem::path& run_dir, const TrainHooks& hooks = {});

}  // namespace topomask
