#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "topomask/train/checkpoint.h"
#include "topomask/train/train.h"

namespace topomask {

/// The folder of a run. Nothing in it is made or changed before open().
class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoint() const { return path_ / kCheckpointName; }

  /// The checkpoint to go on from, if there is one; of another configuration it is refused.
  std::optional<Checkpoint> resume(const RunConfig& config) const;
  /// Makes the folder where it is not there and clears it of files that a killed process left half written. With
  /// `fresh` it also removes the checkpoint and the summary of an earlier run.
  void open(bool fresh) const;
  void write_config(const RunConfig& config) const;
  /// sizes: items of each split.
  void write_summary(const RunConfig& config, const TrainResult& result,
                     const std::map<std::string, int64_t>& sizes) const;
  /// The time of a step and the peak memory of a run that had already ended: those of its summary or, where a kill came
  /// before that was written, the median and the maximum of metrics.jsonl.
  void recall_costs(TrainResult& result) const;

 private:
  std::filesystem::path path_;
};

}  // namespace topomask
