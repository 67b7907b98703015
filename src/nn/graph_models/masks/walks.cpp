#include "nn/graph_models/masks/walks.h"

#include "walks/names.h"

namespace topomask {

WalkTable graph_walks(const Graph& graph, const GraphMaskSetting& setting, int64_t epoch, bool fixed) {
  const GraphModelOptions& o = setting.options;
  const int64_t walkers = o.walkers + o.walkers % 2;  // antithetic pairs begin at an even walker
  WalkOptions walks{.walkers = o.walkers,
                    .halting_probability = o.halting_probability,
                    .max_hops = o.hops,
                    .coupling = kCouplingNames.parse("graph model", "sampler", o.sampler),
                    .seed = setting.seed + static_cast<uint64_t>(epoch) * 0x9E3779B97F4A7C15ULL,
                    .first_walker = o.per_layer_walks ? setting.layer * walkers : 0};
  if (fixed) walks.fixed_hops = o.hops;
  return sample_walks(graph, walks);
}

std::string walks_key(const char* name, const GraphMaskSetting& setting) {
  return setting.options.per_layer_walks ? name + std::to_string(setting.layer) : name;
}

}  // namespace topomask
