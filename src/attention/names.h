#pragma once

#include "core/enum_names.h"
#include "topomask/attention.h"

namespace topomask {

/// Route has a public name for each value already: to_string.
inline const EnumNames<Route, 6> kRouteNames{{to_string(Route::automatic), to_string(Route::dense),
                                              to_string(Route::sparse), to_string(Route::features),
                                              to_string(Route::operator_), to_string(Route::fused)}};
inline constexpr EnumNames<SoftmaxMask, 2> kSoftmaxMaskNames{{"multiplicative", "additive"}};

}  // namespace topomask
