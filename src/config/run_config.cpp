#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

#include "config/json_text.h"
#include "core/option_checks.h"
#include "topomask/config.h"

namespace topomask {
namespace {

constexpr const char* kPreset = "model.preset";

/// Applies ViTOptions::preset and keeps the fields that a size does not determine.
void apply_preset(RunConfig& config, const std::string& name) {
  const ViTOptions sizes = ViTOptions::preset(name);
  config.model.width = sizes.width;
  config.model.depth = sizes.depth;
  config.model.heads = sizes.heads;
  config.model.mlp_ratio = sizes.mlp_ratio;
  config.model.patch_size = sizes.patch_size;
}

}  // namespace

RunConfig parse_config(const std::string& json, const std::string& origin) {
  RunConfig config;
  nlohmann::ordered_json object = parse_json(json, origin);
  std::string text = json;
  // The task comes first: it decides which keys there are.
  if (object.is_object() && object.contains("task") && object["task"].is_string()) {
    config.task = object["task"].get<std::string>();
    OptionChecks(origin).one_of("task", config.task, task_names());
  }
  if (config.task == "images" && object.is_object() && object.contains("model") && object["model"].is_object() &&
      object["model"].contains("preset")) {
    const auto preset = object["model"]["preset"];
    TORCH_CHECK(preset.is_string(), origin, kPreset, " must be a string, got ", preset.dump());
    apply_preset(config, preset.get<std::string>());
    object["model"].erase("preset");
    text = object.dump();
  }
  read_options(option_fields(config), text, origin);
  config.check(origin);
  return config;
}

RunConfig read_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  TORCH_CHECK(file && text << file.rdbuf(), "read_config: ", path, ": cannot read the file");
  return parse_config(text.str(), "read_config: " + path + ": ");
}

std::string to_json(const RunConfig& config) {
  RunConfig copy = config;
  return write_options(option_fields(copy));
}

void override_config(RunConfig& config, const std::string& key, const std::string& value) {
  override_config(config, {{key, value}});
}

void override_config(RunConfig& config, const std::vector<std::pair<std::string, std::string>>& settings) {
  for (const auto& [key, value] : settings) {
    if (key == kPreset && config.task == "images") {
      apply_preset(config, value);
    } else {
      set_option(option_fields(config), key, value);
    }
  }
  config.check("");
}

}  // namespace topomask
