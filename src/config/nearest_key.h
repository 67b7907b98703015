#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// The key that an unknown one was probably meant to be: initials (train.lr for train.learning_rate, in the same
/// section first), then the fewest edits, then a word of a longer name (train.smoothing for train.label_smoothing).
std::optional<std::string> nearest_key(const std::string& key, const std::vector<std::string>& known);

}  // namespace topomask
