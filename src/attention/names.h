#pragma once

#include "core/enum_names.h"
#include "topomask/attention.h"

namespace topomask {

inline constexpr EnumNames<Route, 7> kRouteNames{
    {"automatic", "dense", "sparse", "features", "operator", "fused", "strips"}};
inline constexpr EnumNames<SoftmaxMask, 2> kSoftmaxMaskNames{{"multiplicative", "additive"}};

}  // namespace topomask
