#include <ATen/ATen.h>

#include "core/move.h"
#include "walks/sample.h"

namespace topomask {

WalkTable extend_walks(const WalkTable& table, const Graph& graph, int64_t more_walkers) {
  check_on_cpu("extend_walks", "table", table.device());
  check_on_cpu("extend_walks", "graph", graph.device());
  const char* op = "extend_walks";
  TORCH_CHECK(more_walkers >= 0, op, ": more_walkers must be >= 0, got ", more_walkers);
  TORCH_CHECK(more_walkers <= std::numeric_limits<int32_t>::max() - table.walkers(), op,
              ": more_walkers must leave at most 2^31-1 walkers in all, got ", more_walkers, " in addition to ",
              table.walkers());
  check_sampled_on(op, "graph", table, graph);
  WalkOptions options = table.options();
  options.walkers += more_walkers;
  const WalkPlan plan(op, options);
  const WalkSteps steps(op, graph, options);
  if (more_walkers == 0) return table;
  const bool one_ensemble = plan.repelling && options.ensemble == 0;
  const bool open_couple = options.group_products && table.walkers() % plan.group != 0;
  SampledRows rows;
  if (!one_ensemble && !open_couple) rows = {.skipped_walkers = table.walkers(), .earlier = &table};
  return {sample_rows(plan, steps, options, rows), options, plan.max_hops, /*sampled=*/true};
}

}  // namespace topomask
