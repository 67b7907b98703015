#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace topomask::apps {

using Json = nlohmann::ordered_json;

/// JSON, on one line where `indent` is −1. What is not UTF-8, as a path may be, becomes U+FFFD.
std::string json_text(const Json& value, int indent = -1);

/// Prints a result on stdout: as JSON where asked, otherwise for people. An object becomes a line for each key, an
/// array of objects a table; a string is printed as it is. main() checks that it could be written.
void print(const Json& result, bool json);

/// The second of those, as text.
std::string as_text(const Json& result);

/// 1234567 → "1 234 567"; 0.00123 → "0.00123"; true → "yes".
std::string as_cell(const Json& value);

}  // namespace topomask::apps
