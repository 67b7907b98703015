#pragma once

#include <c10/util/Exception.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace topomask {

/// The names of an enumeration, in the order of its enumerators. There is one such table for each enumeration, in the
/// `names.h` of its folder: files, command lines, Python and printed text all read and write these names through it.
template <class Enum, size_t kCount>
struct EnumNames {
  std::array<std::string_view, kCount> names;

  constexpr std::string_view operator[](Enum value) const { return names[static_cast<size_t>(value)]; }

  constexpr std::optional<Enum> find(std::string_view name) const {
    for (size_t k = 0; k < kCount; ++k) {
      if (name == names[k]) return static_cast<Enum>(k);
    }
    return std::nullopt;
  }

  /// The enumerator of that name, or an error: "OP: ARGUMENT must be a, b or c, got NAME".
  Enum parse(std::string_view op, std::string_view argument, std::string_view name) const {
    const auto found = find(name);
    TORCH_CHECK(found, op, ": ", argument, " must be ", listed(), ", got ", name);
    return *found;
  }

  std::vector<std::string> all() const { return {names.begin(), names.end()}; }

  std::string listed() const {  ///< "a, b or c"
    std::string text;
    for (size_t k = 0; k < kCount; ++k) {
      text.append(k == 0 ? "" : k + 1 == kCount ? " or " : ", ").append(names[k]);
    }
    return text;
  }
};

}  // namespace topomask
