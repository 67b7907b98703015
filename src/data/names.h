#pragma once

#include "core/enum_names.h"
#include "topomask/data/dataset.h"

namespace topomask {

inline constexpr EnumNames<Split, 3> kSplitNames{{"train", "validation", "test"}};

}  // namespace topomask
