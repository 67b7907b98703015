#pragma once

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <string>

namespace topomask {

/// The position of a string that a parser has quoted, such as " at line 3"; empty if it cannot be found.
inline std::string line_of(const std::string& json, const std::string& message) {
  const size_t begin = message.find('\'') + 1, end = message.rfind('\'');
  if (begin == 0 || end <= begin) return "";
  const size_t place = json.find(message.substr(begin, end - begin));
  if (place == std::string::npos) return "";
  return " at line " + std::to_string(1 + std::count(json.begin(), json.begin() + static_cast<int64_t>(place), '\n'));
}

/// JSON, with comments, as the user wrote it. No configuration nests deeper than a few objects: what does is refused,
/// since a value is printed, copied and compared by functions that call themselves for each level.
inline nlohmann::ordered_json parse_json(const std::string& text, const std::string& origin) {
  using Json = nlohmann::ordered_json;
  constexpr int kDeepest = 32;
  const auto check_depth = [&](int depth, Json::parse_event_t, Json&) {
    TORCH_CHECK(depth <= kDeepest, origin, "objects and lists must nest at most ", kDeepest, " deep");
    return true;
  };
  try {
    return Json::parse(text, check_depth, true, /*ignore_comments=*/true);
  } catch (const Json::out_of_range& error) {  // "[json.exception.out_of_range.406] number overflow parsing '1e999'"
    const std::string reason = error.what();
    C10_THROW_ERROR(Error, c10::str(origin, "a number is out of the range of float64", line_of(text, reason), ": ",
                                    reason.substr(reason.find("] ") + 2)));
  } catch (const Json::exception& error) {
    const std::string reason = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    C10_THROW_ERROR(Error, c10::str(origin, "not JSON: ", reason.substr(reason.find("] ") + 2)));
  }
}

}  // namespace topomask
