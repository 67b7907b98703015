#pragma once

#include <cstdint>
#include <string>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// A line of metrics.jsonl of the kind "train": means over the steps since the last one.
struct TrainMetrics {
  int64_t step = 0;
  double epoch = 0;
  double loss = 0;
  double lr = 0;
  double items_per_s = 0;  ///< images, graphs or nodes; images_per_s in files of earlier versions
  double step_ms = 0;
  double memory_mb = 0;
};

/// A line of the kind "eval".
struct EvalMetrics {
  int64_t step = 0;
  std::string split;
  double loss = 0;
  double accuracy = 0;
};

}  // namespace topomask
