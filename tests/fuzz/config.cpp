#include "topomask/config.h"

#include "fuzz/harness.h"

FUZZ_TARGET(config) {
  using namespace topomask;
  fuzz::run("", [&] {
    const RunConfig config = parse_config(std::string(fuzz::text_of(data, size)), "fuzz: ");
    const std::string json = to_json(config);
    fuzz::require(to_json(parse_config(json, "fuzz: ")) == json, "a configuration does not read back as it is written");
  });
}
