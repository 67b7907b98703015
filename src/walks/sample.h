#pragma once

#include <cstdint>
#include <vector>

#include "topomask/walks.h"
#include "walks/plan.h"

namespace topomask {

/// A part of the walks that the options ask for.
struct SampledRows {
  const std::vector<uint32_t>* starts = {};  ///< these rows only, ascending
  int64_t skipped_walkers = 0;               ///< this many walkers of each row are left out, …
  const WalkTable* earlier = {};             ///< … which are in this table
};

WalkTable::Arrays sample_rows(const WalkPlan& plan, const WalkSteps& steps, const WalkOptions& options,
                              const SampledRows& which = {});

/// A table from sample_walks, on a graph like this one.
void check_sampled_on(const char* op, const char* argument, const WalkTable& table, const Graph& graph);

}  // namespace topomask
