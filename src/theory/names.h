#pragma once

#include "core/enum_names.h"
#include "topomask/theory.h"

namespace topomask {

inline constexpr EnumNames<Estimator, 2> kEstimatorNames{{"symmetric", "one_sided"}};

}  // namespace topomask
