#include "config_arguments.h"

#include <c10/util/Exception.h>

#include "command.h"

namespace topomask::apps {

std::vector<std::string> with_settings(const std::vector<std::string>& arguments) {
  std::vector<std::string> rewritten;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::string name = argument.substr(0, argument.find('='));
    if (!name.starts_with("--") || name.find('.') == std::string::npos) {
      rewritten.push_back(argument);
      continue;
    }
    std::string setting = argument.substr(2);
    if (name == argument && i + 1 < arguments.size()) setting += "=" + arguments[++i];
    rewritten.push_back("--set=" + setting);
  }
  return rewritten;
}

void ConfigArguments::add_to(CLI::App& command) {
  command.add_option("--set", settings_, "KEY=VALUE changes a key of the configuration; so does --KEY VALUE")
      ->allow_extra_args(false);
}

void ConfigArguments::apply_to(RunConfig& config) const {
  std::vector<std::pair<std::string, std::string>> changes;
  for (const std::string& setting : settings_) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) throw UsageError("--set takes KEY=VALUE, got '" + setting + "'");
    changes.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  try {
    override_config(config, changes);
  } catch (const c10::Error& error) {
    throw UsageError(error.what_without_backtrace());
  }
}

Json config_keys(RunConfig config) {
  Json keys = Json::array();
  for (const OptionField& field : option_fields(config)) {
    keys.push_back({{"key", field.key}, {"default", option_text(field)}, {"meaning", field.help}});
  }
  return keys;
}

}  // namespace topomask::apps
