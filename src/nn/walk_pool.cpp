#include "nn/walk_pool.h"

#include <c10/util/Exception.h>

#include "nn/grid.h"

namespace topomask {

Coupling coupling_named(const std::string& name) {
  static const std::map<std::string, Coupling> couplings{{"iid", Coupling::independent},
                                                         {"antithetic", Coupling::antithetic},
                                                         {"repelling", Coupling::repelling},
                                                         {"antithetic_repelling", Coupling::antithetic_repelling}};
  const auto found = couplings.find(name);
  TORCH_CHECK(found != couplings.end(), "ViT: sampler must be iid, antithetic, repelling or antithetic_repelling, got ",
              name);
  return found->second;
}

const WalkTable& WalkPool::table(int64_t layer, int64_t head) {
  const std::pair key(options_.per_layer_walks ? layer : 0, options_.per_head_walks ? head : 0);
  if (const auto found = tables_.find(key); found != tables_.end()) return found->second;
  const int64_t walkers = options_.walkers + options_.walkers % 2;  // antithetic pairs begin at an even walker
  const WalkOptions walks{.walkers = options_.walkers,
                          .halting_probability = options_.halting_probability,
                          .max_hops = options_.hops,
                          .coupling = coupling_named(options_.sampler),
                          .seed = seed_,
                          .first_walker = (key.first * options_.heads + key.second) * walkers};
  return tables_.emplace(key, sample_walks(grid_graph(options_), walks)).first->second;
}

}  // namespace topomask
