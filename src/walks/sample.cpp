#include "walks/sample.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>

#include "graph/weights.h"
#include "walks/cuda_walks.h"
#include "walks/load_gradient.h"
#include "walks/table_builder.h"

namespace topomask {

WalkTable::Arrays sample_rows(const WalkPlan& plan, const WalkSteps& steps, const WalkOptions& options,
                              const SampledRows& which) {
  TableSource source{
      .nodes = steps.offsets.size(0) - 1, .walkers = options.walkers - which.skipped_walkers, .earlier = which.earlier};
  source.rows = which.starts ? static_cast<int64_t>(which.starts->size()) : source.nodes;
  source.starts = which.starts ? which.starts->data() : nullptr;
  source.group = options.group_products ? plan.group : 0;
  source.indivisible = plan.group;
  double alive = static_cast<double>(source.walkers);
  for (const double survival : plan.survival) source.visits_per_row += alive *= survival;

  const int64_t first = options.first_walker + which.skipped_walkers;
  WalkTable::Arrays arrays;
  AT_DISPATCH_FLOATING_TYPES(steps.factors.scalar_type(), "sample_walks", [&] {
    arrays = build_table<scalar_t>(source, [&]() -> BatchFiller<scalar_t> {
      return [&, sampler = std::make_shared<WalkSampler<scalar_t>>(plan, steps)](
                 const uint32_t* starts, int64_t rows, WalkerRange walkers, WalkBatch<scalar_t>& batch) {
        sampler->sample(starts, rows, first + walkers.first, first + walkers.last, batch);
      };
    });
  });
  return arrays;
}

WalkTable sample_walks(const Graph& graph, const WalkOptions& options) {
  if (!graph.device().is_cpu()) {
    const CudaWalks walks("sample_walks", graph, options);
    return {walks.table(), options, walks.plan().max_hops, /*sampled=*/true};
  }
  const WalkPlan plan("sample_walks", options);
  const bool learnt = graph.weights().requires_grad() && at::GradMode::is_enabled();
  TORCH_CHECK(!learnt || options.proposal == Proposal::uniform,
              "sample_walks: proposal must be uniform where the graph's weights require grad; detach them with "
              "graph.with_weights(graph.weights().detach())");
  TORCH_CHECK(!learnt || !options.group_products,
              "sample_walks: group_products must be false where the graph's weights require grad, since they have no "
              "gradient; detach them with graph.with_weights(graph.weights().detach())");
  const WalkSteps steps("sample_walks", with_constant_weights(graph), options);
  WalkTable::Arrays arrays = sample_rows(plan, steps, options);
  if (learnt) arrays.loads = loads_of_weights(graph.weights(), plan, steps, options, arrays);
  return {std::move(arrays), options, plan.max_hops, /*sampled=*/true};
}

}  // namespace topomask
