#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <string>

#include "data/names.h"

namespace topomask {

/// The split of that name, or an error.
inline Split split_named(const std::string& name) {
  return kSplitNames.parse("evaluate", "split", name);
}

/// Sets an option of the model that the data decides; where the configuration says something else, that is an error.
inline void take_from_data(const char* name, int64_t& option, int64_t value) {
  TORCH_CHECK(option == 0 || option == value, "train: model.", name, " must be 0 or ", value,
              ", as the data has it, got ", option);
  option = value;
}

}  // namespace topomask
