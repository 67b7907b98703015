#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace topomask {

/// Whether an error of torch says that memory ran out. The allocator of the CPU has no type of error of its own.
inline bool is_out_of_memory(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         std::string_view(error.what_without_backtrace()).find("DefaultCPUAllocator") != std::string_view::npos;
}

/// The bytes that torch tried to allocate, as its error has them: "17179869184"; empty where it does not say.
inline std::string bytes_asked_for(const c10::Error& error) {
  constexpr std::string_view kBefore = "tried to allocate ", kDigits = "0123456789";
  const std::string text = error.what_without_backtrace();
  const size_t at = text.find(kBefore);
  if (at == std::string::npos) return "";
  const std::string digits = text.substr(at + kBefore.size(), 20);
  return digits.substr(0, std::min(digits.find_first_not_of(kDigits), digits.size()));
}

/// What an error says, without where in the sources it was thrown; memory that ran out in words of our own.
inline std::string error_text(const c10::Error& error) {
  if (!is_out_of_memory(error)) return error.what_without_backtrace();
  const std::string bytes = bytes_asked_for(error);
  return bytes.empty() ? "out of memory" : "out of memory: " + bytes + " bytes cannot be allocated";
}

}  // namespace topomask
