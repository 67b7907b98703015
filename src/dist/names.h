#pragma once

#include "core/enum_names.h"
#include "topomask/dist.h"

namespace topomask {

inline constexpr EnumNames<PartitionMethod, 4> kPartitionMethodNames{{"automatic", "metis", "cuthill_mckee", "ranges"}};

}  // namespace topomask
