#include "topomask/nn/walk_pool.h"

#include "nn/grid.h"
#include "nn/names.h"

namespace topomask {

const WalkTable& WalkPool::table(int64_t layer, int64_t head) {
  const std::pair key(options_.per_layer_walks ? layer : 0, options_.per_head_walks ? head : 0);
  if (const auto found = tables_.find(key); found != tables_.end()) return found->second;
  const int64_t walkers = options_.walkers + options_.walkers % 2;  // antithetic pairs begin at an even walker
  const WalkOptions walks{.walkers = options_.walkers,
                          .halting_probability = options_.halting_probability,
                          .max_hops = options_.hops,
                          .coupling = sampler_coupling(options_.sampler),
                          .seed = seed_,
                          .first_walker = (key.first * options_.heads + key.second) * walkers};
  return tables_.emplace(key, sample_walks(grid_graph(options_, axes_), walks)).first->second;
}

}  // namespace topomask
