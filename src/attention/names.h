#pragma once

#include "core/enum_names.h"
#include "topomask/attention.h"

namespace topomask {

inline constexpr EnumNames<Route, 6> kRouteNames{{"automatic", "dense", "sparse", "features", "operator", "fused"}};
inline constexpr EnumNames<SoftmaxMask, 2> kSoftmaxMaskNames{{"multiplicative", "additive"}};

}  // namespace topomask
