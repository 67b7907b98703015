#pragma once

#include <cstdint>

#include "topomask/export.h"
#include "topomask/run_config.h"

namespace TOPOMASK_API topomask {

/// The learning rate of step 0 … steps−1 of a run: linear from learning_rate/warmup_steps up to learning_rate, which
/// holds for constant_steps, then half a cosine down to final_learning_rate at the last step, or, where
/// options.schedule is step, final_learning_rate at once.
double learning_rate(const TrainOptions& options, int64_t step, int64_t steps);

}  // namespace topomask
