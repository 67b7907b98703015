#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "output.h"
#include "topomask/config.h"

namespace topomask::apps {

/// `--set KEY=VALUE` for every key of a configuration, in the order given.
class ConfigArguments {
 public:
  void add_to(CLI::App& command);
  /// One more setting, after those of the command line.
  void add(const std::string& key, const std::string& value) { settings_.push_back(key + "=" + value); }
  /// A key that is not known is a UsageError with the nearest one, and so is a value of another type.
  void apply_to(RunConfig& config) const;

 private:
  std::vector<std::string> settings_;
};

/// The arguments with `--model.width 192` and `--model.width=192` spelt `--set=model.width=192`: what has a dot is a
/// key.
std::vector<std::string> with_settings(const std::vector<std::string>& arguments);

/// Every key of the configuration's task with its value and meaning.
Json config_keys(RunConfig config);

}  // namespace topomask::apps
