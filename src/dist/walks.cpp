#include <ATen/ATen.h>

#include <vector>

#include "core/checks.h"
#include "topomask/dist.h"
#include "walks/sample.h"

namespace topomask {

WalkTable::Arrays sample_walks_from(const Graph& graph, const at::Tensor& starts, const WalkOptions& options) {
  constexpr const char* kOp = "sample_walks_from";
  TORCH_CHECK(graph.device().is_cpu(), kOp, ": the graph must be on cpu, got ", graph.device());
  TORCH_CHECK(starts.defined() && starts.dim() == 1 && starts.scalar_type() == at::kLong && starts.is_cpu(), kOp,
              ": starts must be Long [n] on cpu, got ", describe(starts));
  const at::Tensor list = starts.contiguous();
  const int64_t* start = list.const_data_ptr<int64_t>();
  std::vector<uint32_t> rows(static_cast<size_t>(list.size(0)));
  for (int64_t i = 0; i < list.size(0); ++i) {
    TORCH_CHECK(start[i] >= 0 && start[i] < graph.num_nodes() && (i == 0 || start[i - 1] < start[i]), kOp,
                ": starts must be ascending, distinct and in [0, ", graph.num_nodes(), "), got ", start[i], " at ", i);
    rows[static_cast<size_t>(i)] = static_cast<uint32_t>(start[i]);
  }
  const WalkPlan plan(kOp, options);
  const WalkSteps steps(kOp, graph, options);
  return sample_rows(plan, steps, options, {.starts = &rows});
}

}  // namespace topomask
