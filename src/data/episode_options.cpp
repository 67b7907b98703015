#include "topomask/data/episode_options.h"

#include "core/option_checks.h"

namespace topomask {

void EpisodeDataOptions::check(const std::string& origin) const {
  const OptionChecks check(origin);
  check.fraction("validation_fraction", validation_fraction);
  check.fraction("test_fraction", test_fraction);
  check.that(validation_fraction + test_fraction < 1, "test_fraction",
             "below 1 - validation_fraction = ", 1 - validation_fraction, ", got ", test_fraction);
  check.within("rollout", rollout, 1, 65536);
  check.within("rays", rays, 1, int64_t{1} << 24);
  check.fraction("changed_rays", changed_rays);
  check.not_negative("cloud_weight", cloud_weight, check.kLargestParameter);
  check.within("cloud_points", cloud_points, 0, int64_t{1} << 24);
  check.within("evaluation_steps", evaluation_steps, 1, 65536);
  check.at_least("evaluation_episodes", evaluation_episodes, 0);
  check.at_least("cache_mb", cache_mb, 0);
}

}  // namespace topomask
