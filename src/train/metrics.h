#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/internal_api.h"
#include "topomask/train/metrics.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// The numbers of a run, as they come: metrics.jsonl, a JSON object a line, and a TensorBoard event file, both in the
/// folder of the run. A write that fails (a full disk) is an error naming the file.
class MetricsLog {
 public:
  /// Continues after `step`: lines of later steps, which a run that was killed left behind, and a last line that was
  /// cut are removed. −1 starts afresh.
  explicit MetricsLog(const std::filesystem::path& run_dir, int64_t step = -1);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  void write(const TrainMetrics& metrics);
  void write(const EvalMetrics& metrics);
  void sync();  ///< onto the disk, before a checkpoint that counts on these lines

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

/// What metrics.jsonl holds. A last line that was cut is left out; any other line that is not as above is an error
/// naming file and line.
struct RunMetrics {
  std::vector<TrainMetrics> train;
  std::vector<EvalMetrics> eval;
};
RunMetrics read_metrics(const std::filesystem::path& run_dir);

}  // namespace topomask
