#include "config_arguments.h"
#include "fuzz/lines.h"

// The arguments of a command line, one on each line: --model.width 192, --set=model.depth=3.

FUZZ_TARGET(settings) {
  using namespace topomask;
  static CLI::App app;  // making one takes longer than all the rest
  static apps::ConfigArguments arguments;
  static const bool once = (arguments.add_to(app), true);
  fuzz::require(once, "no arguments");
  arguments = {};
  fuzz::run_arguments(app, apps::with_settings(fuzz::lines_of(data, size)), [] {
    RunConfig config;
    arguments.apply_to(config);
    const std::string json = to_json(config);
    fuzz::require(to_json(parse_config(json, "fuzz: ")) == json, "a configuration does not read back as it is written");
  });
}
