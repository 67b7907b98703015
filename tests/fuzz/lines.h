#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "command.h"
#include "fuzz/harness.h"

namespace topomask::fuzz {

/// The lines of the input: the arguments of a command line.
inline std::vector<std::string> lines_of(const uint8_t* data, size_t size) {
  std::vector<std::string> lines;
  std::istringstream text(std::string(text_of(data, size)));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// Parses the arguments and uses them. Errors that the tool reports as wrong usage are expected, others are findings.
template <class Use>
void run_arguments(CLI::App& app, std::vector<std::string> arguments, const Use& use) {
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    app.parse(arguments);
    use();
  } catch (const CLI::ParseError&) {
  } catch (const apps::UsageError&) {
  }
}

}  // namespace topomask::fuzz
