#pragma once

#include <string>
#include <string_view>

namespace topomask::io {

/// What a file has in place of what was expected, for an error text: the first 40 bytes in quotation marks.
inline std::string quoted(std::string_view word) {
  constexpr size_t kShownBytes = 40;
  std::string shown = "\"";
  for (const char c : word.substr(0, kShownBytes)) shown += c >= ' ' && c <= '~' ? c : '?';
  return shown + (word.size() > kShownBytes ? "…\"" : "\"");
}

}  // namespace topomask::io
