#pragma once

#include "topomask/mask.h"

namespace topomask {

/// Mask::frozen, or null for a mask with parameters that does not offer rebuild().
MaskPtr frozen_if_offered(const Mask& mask);

}  // namespace topomask
