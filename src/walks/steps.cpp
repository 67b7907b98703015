#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <numeric>

#include "core/checks.h"
#include "graph/weights.h"
#include "walks/plan.h"

namespace topomask {
namespace {

/// One row of q as thresholds and aliases (Walker 1977, in the order of Vose 1991): slot s is drawn uniformly, kept
/// with probability threshold/2³² and exchanged for its alias otherwise. `q` sums to 1 and is overwritten.
void alias_row(std::vector<double>& q, uint32_t* threshold, int32_t* alias, std::vector<int32_t>& small,
               std::vector<int32_t>& large) {
  const auto degree = static_cast<int32_t>(q.size());
  small.clear();
  large.clear();
  for (int32_t s = 0; s < degree; ++s) {
    q[static_cast<size_t>(s)] *= degree;
    (q[static_cast<size_t>(s)] < 1 ? small : large).push_back(s);
  }
  while (!small.empty() && !large.empty()) {
    const int32_t less = small.back(), more = large.back();
    small.pop_back();
    const double kept = q[static_cast<size_t>(less)];
    threshold[less] = static_cast<uint32_t>(std::min(std::round(std::ldexp(kept, 32)), 4294967295.0));
    alias[less] = more;
    double& rest = q[static_cast<size_t>(more)];
    rest -= 1 - kept;
    if (rest < 1) {
      large.pop_back();
      small.push_back(more);
    }
  }
  // What is left is full but for rounding.
  for (const auto* full : {&small, &large}) {
    for (const int32_t s : *full) {
      threshold[s] = 0;
      alias[s] = s;
    }
  }
}

/// The proposal's weight of every entry of W, checked.
at::Tensor proposal_of(const char* op, const Graph& graph, const WalkOptions& options) {
  const at::Tensor weights = graph.weights().detach().to(at::kDouble);
  if (options.proposal == Proposal::weights) return weights.abs();
  const at::Tensor& given = options.proposal_weights;
  TORCH_CHECK(given.defined() && is_real(given.scalar_type()) && given.dim() == 1 &&
                  given.size(0) == graph.num_entries() && given.device().is_cpu(),
              op, ": proposal_weights must be float32 or float64 [entries = ", graph.num_entries(), "] on cpu, got ",
              describe(given));
  const at::Tensor proposal = given.detach().to(at::kDouble).contiguous();
  const double *q = proposal.const_data_ptr<double>(), *w = weights.const_data_ptr<double>();
  for (int64_t e = 0; e < proposal.size(0); ++e) {
    TORCH_CHECK(std::isfinite(q[e]) && q[e] >= 0 && (q[e] > 0 || w[e] == 0), op,
                ": proposal_weights must be finite, and positive where the graph's weights are not zero, got ", q[e],
                " at entry ", e);
  }
  return proposal;
}

}  // namespace

WalkSteps::WalkSteps(const char* op, const Graph& graph, const WalkOptions& options) {
  const bool repelling = options.coupling == Coupling::repelling || options.coupling == Coupling::antithetic_repelling;
  TORCH_CHECK(!repelling || options.proposal == Proposal::uniform, op,
              ": proposal must be uniform for repelling walkers");
  check_constant_weights(op, "graph", graph,
                         "only sample_walks with a uniform proposal, on the CPU, has a gradient in them");
  TORCH_CHECK(!options.proposal_weights.defined() || !options.proposal_weights.requires_grad(), op,
              ": proposal_weights must not require grad, got weights that do: walks have no gradient in them");
  TORCH_CHECK(options.proposal == Proposal::given || !options.proposal_weights.defined(), op,
              ": proposal_weights are for Proposal::given only");
  if (options.proposal == Proposal::uniform) {
    offsets = graph.offsets();
    columns = graph.columns();
    factors = graph.weights().detach().contiguous();
    return;
  }
  const at::Tensor proposal = proposal_of(op, graph, options);
  const double* q = proposal.const_data_ptr<double>();
  const int64_t* from = graph.offsets().const_data_ptr<int64_t>();
  const int64_t nodes = graph.num_nodes();

  offsets = at::zeros({nodes + 1}, at::kLong);
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < nodes; ++i) {
    offset[i + 1] = offset[i];
    for (int64_t e = from[i]; e < from[i + 1]; ++e) offset[i + 1] += q[e] > 0;
  }
  const int64_t entries = offset[nodes];
  columns = at::empty({entries}, at::kInt);
  factors = at::empty({entries}, graph.weights().options().requires_grad(false));
  threshold = at::empty({entries}, at::kInt);
  alias = at::empty({entries}, at::kInt);
  AT_DISPATCH_FLOATING_TYPES(factors.scalar_type(), "walk_steps", [&] {
    const at::Tensor weights = graph.weights().detach().contiguous();
    const int32_t* column = graph.columns().const_data_ptr<int32_t>();
    const auto* weight = weights.const_data_ptr<scalar_t>();
    auto* to = columns.mutable_data_ptr<int32_t>();
    auto* factor = factors.mutable_data_ptr<scalar_t>();
    auto* below = reinterpret_cast<uint32_t*>(threshold.mutable_data_ptr<int32_t>());
    auto* other = alias.mutable_data_ptr<int32_t>();
    at::parallel_for(0, nodes, 1024, [&](int64_t begin, int64_t end) {
      std::vector<double> row;
      std::vector<int32_t> small, large;
      for (int64_t i = begin; i < end; ++i) {
        row.clear();
        const double total = std::accumulate(q + from[i], q + from[i + 1], 0.0);
        int64_t at = offset[i];
        for (int64_t e = from[i]; e < from[i + 1]; ++e) {
          if (q[e] == 0) continue;
          row.push_back(q[e] / total);
          to[at] = column[e];
          factor[at++] = static_cast<scalar_t>(weight[e] / row.back());
        }
        alias_row(row, below + offset[i], other + offset[i], small, large);
      }
    });
  });
}

}  // namespace topomask
