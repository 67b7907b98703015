#pragma once

#include "core/internal_api.h"
#include "topomask/mask.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Mask::frozen, or null for a mask with parameters that does not offer rebuild().
MaskPtr frozen_if_offered(const Mask& mask);

}  // namespace topomask
