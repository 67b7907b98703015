#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// The known name that `name` was probably meant to be: the one fewest edits away, where an edit inserts, removes or
/// replaces a character or swaps two neighbours. For dotted names (train.width) the last parts are compared as well, so
/// that a key in the wrong section is found. Nothing where even the nearest shares too little to be of help.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace topomask
