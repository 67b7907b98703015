#include "argument_checks.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/nearest_name.h"

namespace topomask::apps {

CLI::Validator whole_number(int64_t low, int64_t high) {
  const auto check = [low, high](const std::string& text) -> std::string {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && end == text.data() + text.size() && number >= low && number <= high) return "";
    const bool bounded = high < std::numeric_limits<int64_t>::max() || error == std::errc::result_out_of_range;
    return "must be a whole number " +
           (bounded ? "from " + std::to_string(low) + " to " + std::to_string(high) : ">= " + std::to_string(low)) +
           ", got '" + text + "'";
  };
  return CLI::Validator(check, "", "");
}

bool parse_number(const std::string& text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && std::isfinite(number);
}

CLI::Validator finite_number(const std::string& inside, bool (*fits)(double)) {
  const auto check = [inside, fits](const std::string& text) -> std::string {
    double number = 0;
    if (parse_number(text, number) && (fits == nullptr || fits(number))) return "";
    return "must be a finite number" + (inside.empty() ? "" : " " + inside) + ", got '" + text + "'";
  };
  return CLI::Validator(check, "", "");
}

CLI::Validator between_zero_and_one() {
  return finite_number("in (0, 1)", [](double number) { return number > 0 && number < 1; });
}

CLI::Validator positive_number() {
  return finite_number("> 0", [](double number) { return number > 0; });
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto check = [names](const std::string& text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end()) return "";
    std::string all;
    for (size_t i = 0; i < names.size(); ++i) {
      all += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
    }
    return "must be " + all + ", got '" + text + "'" + hint(text, names);
  };
  return CLI::Validator(check, "", "");
}

std::string hint(const std::string& name, const std::vector<std::string>& known) {
  const auto nearest = nearest_name(name, known);
  return nearest ? "; did you mean " + *nearest + "?" : "";
}

void check_folder_of(const std::string& command, const std::string& option, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  TORCH_CHECK(path.empty() || folder.empty() || std::filesystem::is_directory(folder), command, ": ", option, " ", path,
              ": there is no folder ", folder.string());
}

}  // namespace topomask::apps
