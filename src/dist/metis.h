#pragma once

#include <ATen/core/Tensor.h>

#include "topomask/graph.h"

namespace topomask {

/// The part of each node by METIS_PartGraphKway, int32 [N]; parts ≥ 2. Parts may be empty. An error without METIS.
at::Tensor metis_owners(const Graph& graph, int64_t parts);

}  // namespace topomask
