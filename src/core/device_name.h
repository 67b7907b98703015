#pragma once

#include <algorithm>
#include <string_view>

namespace topomask {

/// Whether it is cpu, cuda or cuda:N, with N of one or two digits.
inline bool is_device_name(std::string_view name) {
  constexpr std::string_view kNumbered = "cuda:";
  if (name == "cpu" || name == "cuda") return true;
  if (!name.starts_with(kNumbered)) return false;
  const std::string_view number = name.substr(kNumbered.size());
  return !number.empty() && number.size() <= 2 &&
         std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace topomask
