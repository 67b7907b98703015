#pragma once

#include <cstdint>
#include <string>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// Which episodes a model of dynamics sees, and how much of them at once.
struct EpisodeDataOptions {
  std::string path;
  uint64_t split_seed = 0;
  double validation_fraction = 0.1;
  double test_fraction = 0.1;
  int64_t rollout = 6;
  int64_t rays = 128;
  double changed_rays = 0.5;
  double cloud_weight = 1;
  int64_t cloud_points = 1024;
  int64_t evaluation_steps = 16;
  int64_t evaluation_episodes = 0;
  int64_t cache_mb = 4096;

  /// Refuses a field that is out of its range, by its name. `origin` starts the text.
  void check(const std::string& origin = "episodes: data.") const;
};

/// Names and explains every field: files, command lines and help come from here.
template <class Visitor>
void visit(Visitor& v, EpisodeDataOptions& o) {
  v("path", o.path, "a file of episodes (*.episodes), or a folder of such files");
  v("split_seed", o.split_seed, "draws which episodes are held out");
  v("validation_fraction", o.validation_fraction, "fraction of the episodes held out for validation");
  v("test_fraction", o.test_fraction, "fraction of the episodes held out for testing");
  v("rollout", o.rollout, "steps that are predicted in training, each from the prediction before");
  v("rays", o.rays, "rays of a camera and step whose colours are compared in training");
  v("changed_rays", o.changed_rays, "fraction of them among pixels whose colours differ from the last seen frame");
  v("cloud_weight", o.cloud_weight, "of the distance between predicted and true clouds in the loss; 0: colours alone");
  v("cloud_points", o.cloud_points, "predicted particles of a step that are compared with the true cloud");
  v("evaluation_steps", o.evaluation_steps, "steps that are predicted in evaluation, as far as episodes go");
  v("evaluation_episodes", o.evaluation_episodes, "episodes of a split that are evaluated; 0: all");
  v("cache_mb", o.cache_mb, "unpacked episodes that are kept in memory, in MB");
}

}  // namespace topomask
