#include "output.h"

#include <cmath>
#include <cstdio>
#include <iostream>

namespace topomask::apps {
namespace {

std::string grouped(std::string digits) {
  const size_t sign = digits.starts_with('-') ? 1 : 0;
  for (size_t place = digits.size(); place > sign + 3; place -= 3) digits.insert(place - 3, " ");
  return digits;
}

/// Columns as people count them: bytes that go on with a character are none.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char byte) { return (byte & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
}

std::string table(const Json& rows) {
  std::vector<std::string> names;
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (std::find(names.begin(), names.end(), key) == names.end()) names.push_back(key);
    }
  }
  std::vector<std::vector<std::string>> lines{names};
  for (const Json& row : rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const std::string& name : names) line.push_back(row.contains(name) ? as_cell(row[name]) : "");
  }
  std::string text;
  for (const auto& line : lines) {
    std::string joined;
    for (size_t c = 0; c < names.size(); ++c) {
      size_t width = 0;
      for (const auto& other : lines) width = std::max(width, width_of(other[c]));
      const bool number = rows[0].contains(names[c]) && rows[0][names[c]].is_number();
      joined += (c > 0 ? "  " : "") + padded(line[c], width, number);
    }
    joined.erase(joined.find_last_not_of(' ') + 1);
    text += joined + "\n";
  }
  return text;
}

bool is_table(const Json& value) {
  return value.is_array() && !value.empty() && value[0].is_object();
}

}  // namespace

std::string as_cell(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "-";
  if (value.is_number_integer()) return grouped(value.dump());
  if (value.is_number_float()) {
    const double number = value.get<double>();
    char digits[32];
    std::snprintf(digits, sizeof(digits), std::abs(number) >= 1000 && std::abs(number) < 1e9 ? "%.0f" : "%.4g", number);
    return digits;
  }
  if (!value.is_array()) return json_text(value);
  std::string joined;
  for (const Json& element : value) joined += (joined.empty() ? "" : ", ") + as_cell(element);
  return joined;
}

std::string as_text(const Json& result) {
  if (result.is_string()) {
    const std::string text = result.get<std::string>();
    return text.ends_with('\n') ? text : text + "\n";
  }
  if (is_table(result)) return table(result);
  if (!result.is_object()) return as_cell(result) + "\n";
  size_t width = 0;
  for (const auto& [key, value] : result.items()) width = std::max(width, is_table(value) ? 0 : width_of(key));
  std::string text;
  for (const auto& [key, value] : result.items()) {
    if (is_table(value)) {
      text += "\n" + key + "\n" + table(value);
    } else {
      text += padded(key, width, false) + "  " + as_cell(value) + "\n";
    }
  }
  return text;
}

std::string json_text(const Json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

void print(const Json& result, bool json) {
  std::cout << (json ? json_text(result, 2) + "\n" : as_text(result)) << std::flush;
}

}  // namespace topomask::apps
