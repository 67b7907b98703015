#pragma once

#include <memory>

#include "topomask/nn/variants.h"
#include "topomask/walks.h"

namespace topomask {

/// A mask over frozen walks with a learnable function f of the hops, [H, hops + 1]: `rule` is grf_mask or another mask
/// over a walk table. With walks of its own, each head has its row of f as a parameter of its own.
std::shared_ptr<MaskSource> walk_mask(const VariantSetting& setting,
                                      MaskPtr (*rule)(const WalkTable& walks, const at::Tensor& f));

}  // namespace topomask
