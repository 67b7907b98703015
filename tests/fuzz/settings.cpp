#include <sstream>

#include "command.h"
#include "config_arguments.h"
#include "fuzz/harness.h"

// Arguments of a command line, one on each line: --model.width 192, --set=model.depth=3.

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace topomask;
  static CLI::App app;  // making one takes longer than all the rest
  static apps::ConfigArguments arguments;
  static const bool once = (arguments.add_to(app), true);
  arguments = {};
  fuzz::require(once, "no arguments");
  RunConfig config;
  try {
    std::vector<std::string> lines;
    std::istringstream text(std::string(fuzz::text_of(data, size)));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    std::vector<std::string> given = apps::with_settings(lines);
    std::reverse(given.begin(), given.end());  // as CLI11 takes them
    app.parse(given);
    arguments.apply_to(config);
  } catch (const CLI::ParseError&) {
    return 0;
  } catch (const apps::UsageError&) {
    return 0;
  }
  const std::string json = to_json(config);
  fuzz::require(to_json(parse_config(json, "fuzz: ")) == json, "a configuration does not read back as it is written");
  return 0;
}
