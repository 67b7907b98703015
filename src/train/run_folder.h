#pragma once

#include <filesystem>
#include <optional>

#include "topomask/train/checkpoint.h"
#include "topomask/train/train.h"

namespace topomask {

/// The folder of a run: made where it is not there, cleared of files that a killed process left half written.
class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoint() const { return path_ / "checkpoint.pt"; }

  /// The checkpoint to go on from, if there is one; of another configuration it is refused.
  std::optional<Checkpoint> resume(const RunConfig& config) const;
  void write_config(const RunConfig& config) const;
  void write_summary(const RunConfig& config, const TrainResult& result) const;

 private:
  std::filesystem::path path_;
};

}  // namespace topomask
