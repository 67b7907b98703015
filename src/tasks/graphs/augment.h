#pragma once

#include <cstdint>

#include "core/internal_api.h"
#include "topomask/data/graph_options.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Turns each cloud of a sample at random (options.rotate) and adds noise to its places (options.jitter). The first
/// 3·vectors columns of the features are vectors in space, the first of them the place. Edges stay as they are: those
/// of a mesh or of nearest neighbours do not change when a cloud is turned. A function of (seed, draw).
void augment_clouds(GraphSample& sample, const GraphDataOptions& options, int64_t vectors, uint64_t seed,
                    uint32_t draw);

}  // namespace topomask
