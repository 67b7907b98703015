#pragma once

#include "topomask/sparse.h"

namespace topomask {

/// The pattern of I, [nodes, nodes].
PatternPtr identity_pattern(int64_t nodes);

}  // namespace topomask
