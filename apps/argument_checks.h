#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace topomask::apps {

// Validators for options: what they refuse is a usage error that names the option, what it takes and what it got.

/// A whole number from `low` to `high`.
CLI::Validator whole_number(int64_t low, int64_t high = std::numeric_limits<int64_t>::max());

/// A finite number for which `fits` is true; `inside` describes that condition in words ("in (0, 1)").
CLI::Validator finite_number(const std::string& inside = "", bool (*fits)(double) = nullptr);
CLI::Validator between_zero_and_one();  ///< both excluded
CLI::Validator positive_number();

/// One of these names.
CLI::Validator one_of(const std::vector<std::string>& names);

/// A finite double from all of `text`.
bool parse_number(const std::string& text, double& number);

/// "; did you mean grf?", or nothing.
std::string hint(const std::string& name, const std::vector<std::string>& known);

/// An error (status 1) where the folder that `path` is to be written into does not exist: it is reported before long
/// work, not after it.
void check_folder_of(const std::string& command, const std::string& option, const std::string& path);

}  // namespace topomask::apps
