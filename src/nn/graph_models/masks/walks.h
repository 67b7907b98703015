#pragma once

#include <string>

#include "topomask/nn/graph_mask.h"
#include "topomask/walks.h"

namespace topomask {

/// The walks of an epoch for the layer of a setting: halting at random up to options.hops, or of exactly as many where
/// `fixed`. Those of different layers and epochs are independent.
WalkTable graph_walks(const Graph& graph, const GraphMaskSetting& setting, int64_t epoch, bool fixed);

/// `name`, with the layer where every layer has walks of its own.
std::string walks_key(const char* name, const GraphMaskSetting& setting);

}  // namespace topomask
