#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::row_tiles {

/// The rows of a pattern (PatternTensors::kRows) in tiles of sixteen, as layout.h describes: int32. One size is read
/// back where the pattern is on a GPU. The operator `row_tiles`.
at::Tensor make(at::TensorList pattern);

}  // namespace ops::row_tiles
}  // namespace topomask
