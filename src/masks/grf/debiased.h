#pragma once

#include "topomask/mask.h"
#include "topomask/walks.h"

namespace topomask {

/// Φ̂Φ̂ᵀ with the diagonal from pairs of walkers in different groups; f has been checked.
MaskPtr debiased_grf_mask(std::string name, const WalkTable& walks, const at::Tensor& f);

}  // namespace topomask
