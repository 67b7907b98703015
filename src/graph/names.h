#pragma once

#include "core/enum_names.h"
#include "topomask/graph.h"

namespace topomask {

inline constexpr EnumNames<Duplicates, 3> kDuplicatesNames{{"first", "sum", "refuse"}};
inline constexpr EnumNames<SelfLoops, 3> kSelfLoopsNames{{"keep", "drop", "refuse"}};

}  // namespace topomask
