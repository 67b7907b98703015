#pragma once

#include "core/enum_names.h"

namespace topomask {

/// TrainOptions::precision.
enum class Precision { float32, bfloat16 };
inline constexpr EnumNames<Precision, 2> kPrecisionNames{{"float32", "bfloat16"}};

/// TrainOptions::optimiser.
enum class OptimiserRule { adamw, adam };
inline constexpr EnumNames<OptimiserRule, 2> kOptimiserNames{{"adamw", "adam"}};

/// TrainOptions::schedule: how the learning rate falls.
enum class RateSchedule { cosine, step };
inline constexpr EnumNames<RateSchedule, 2> kScheduleNames{{"cosine", "step"}};

/// TrainOptions::select: which weights of a run count.
enum class KeptWeights { last, best };
inline constexpr EnumNames<KeptWeights, 2> kSelectNames{{"last", "best"}};

}  // namespace topomask
