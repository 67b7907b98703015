#include <ATen/ATen.h>

#include <algorithm>

#include "core/checks.h"
#include "core/move.h"
#include "walks/table_builder.h"

namespace topomask {
namespace {

constexpr const char* kOp = "walk_table_from_walks";

/// Fills batches with walks as they were given.
template <class T>
class GivenWalks {
 public:
  GivenWalks(const at::Tensor& nodes, const at::Tensor& loads, const WalkPlan& plan, const WalkSteps& steps,
             int64_t first_walker)
      : nodes_(nodes.const_data_ptr<int64_t>()),
        loads_(loads.defined() ? loads.const_data_ptr<T>() : nullptr),
        count_(nodes.size(0)),
        walkers_(nodes.size(1)),
        length_(nodes.size(2)),
        first_walker_(first_walker),
        plan_(plan),
        offsets_(steps.offsets.const_data_ptr<int64_t>()),
        columns_(steps.columns.const_data_ptr<int32_t>()),
        factors_(steps.factors.template const_data_ptr<T>()),
        uniform_(!steps.threshold.defined()) {}

  void operator()(const uint32_t* starts, int64_t rows, WalkerRange, WalkBatch<T>& batch) {  // always all walkers
    running_.assign(static_cast<size_t>(rows * walkers_), T(1));
    batch.clear();
    int64_t alive = rows * walkers_;
    for (int64_t t = 0; t < length_; ++t) {  // to the end, though all may have stopped: what follows must be -1
      const Walkers<T> to = batch.next_hop(alive);
      alive = 0;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t w = 0; w < walkers_; ++w) {
          const int64_t at = (starts[r] * walkers_ + w) * length_ + t;
          if (!walks(starts[r], w, t, at)) continue;
          T& load = running_[r * walkers_ + w];
          if (t > 0) load *= factor(nodes_[at - 1], nodes_[at], t, starts[r], w);
          to.start[alive] = starts[r];
          to.number[alive] = static_cast<uint32_t>(first_walker_ + w);
          to.position[alive] = static_cast<uint32_t>(nodes_[at]);
          TORCH_CHECK(!loads_ || std::isfinite(loads_[at]), kOp, ": loads must be finite, got ", loads_[at], " at hop ",
                      t, " of walk ", w, " from node ", starts[r]);
          to.load[alive++] = loads_ ? loads_[at] : load;
        }
      }
      batch.commit(alive);
    }
  }

 private:
  /// Whether walk w of node i has a node at hop t.
  bool walks(int64_t i, int64_t w, int64_t t, int64_t at) const {
    const int64_t node = nodes_[at];
    TORCH_CHECK(node >= -1 && node < count_, kOp, ": nodes must be in [-1, ", count_, "), got ", node, " at hop ", t,
                " of walk ", w, " from node ", i);
    TORCH_CHECK(t > 0 || node == i, kOp, ": a walk must begin at its start, got ", node, " first in walk ", w,
                " from node ", i);
    TORCH_CHECK(node < 0 || t == 0 || nodes_[at - 1] >= 0, kOp, ": nodes must be -1 after the end, got ", node,
                " at hop ", t, " of walk ", w, " from node ", i);
    TORCH_CHECK(node < 0 || t <= plan_.max_hops, kOp, ": walks must have at most ", plan_.max_hops,
                " hops, as the options say, got more in walk ", w, " from node ", i);
    return node >= 0;
  }

  /// What the hop u → v to hop t multiplies the load by.
  T factor(int64_t u, int64_t v, int64_t t, int64_t i, int64_t w) const {
    const int32_t *begin = columns_ + offsets_[u], *end = columns_ + offsets_[u + 1];
    const int32_t* found = std::lower_bound(begin, end, static_cast<int32_t>(v));
    TORCH_CHECK(found != end && *found == v, kOp, ": every step must be an edge that the proposal takes, got ", u,
                " -> ", v, " at hop ", t, " of walk ", w, " from node ", i);
    T scale = static_cast<T>(1 / plan_.survival[t - 1]);
    if (uniform_) scale *= static_cast<T>(end - begin);
    return factors_[found - columns_] * scale;
  }

  const int64_t* nodes_;
  const T* loads_;
  int64_t count_, walkers_, length_, first_walker_;
  const WalkPlan& plan_;
  const int64_t* offsets_;
  const int32_t* columns_;
  const T* factors_;
  bool uniform_;
  std::vector<T> running_;
};

}  // namespace

WalkTable walk_table_from_walks(const Graph& graph, const at::Tensor& nodes, const WalkOptions& given,
                                const at::Tensor& loads) {
  check_on_cpu("walk_table_from_walks", "graph", graph.device());
  TORCH_CHECK(nodes.defined() && nodes.dim() == 3 &&
                  (nodes.scalar_type() == at::kLong || nodes.scalar_type() == at::kInt) && nodes.device().is_cpu() &&
                  nodes.size(0) == graph.num_nodes() && nodes.size(1) >= 1 && nodes.size(2) >= 1,
              kOp, ": nodes must be int64 or int32 [N = ", graph.num_nodes(), ", walkers >= 1, L >= 1] on cpu, got ",
              describe(nodes));
  const at::ScalarType dtype = graph.weights().scalar_type();
  TORCH_CHECK(
      !loads.defined() || (loads.sizes() == nodes.sizes() && loads.scalar_type() == dtype && loads.device().is_cpu()),
      kOp, ": loads must be ", dtype, " of the shape of nodes on cpu, got ", describe(loads));
  TORCH_CHECK(!loads.defined() || !loads.requires_grad(), kOp,
              ": loads must not require grad, got loads that do: the table has no gradient in them");
  WalkOptions options = given;
  options.walkers = nodes.size(1);
  const WalkPlan plan(kOp, options);
  const WalkSteps steps(kOp, graph, options);
  const at::Tensor kept_nodes = nodes.to(at::kLong).contiguous();
  const at::Tensor kept_loads = loads.defined() ? loads.detach().contiguous() : loads;
  const TableSource source{.rows = graph.num_nodes(),
                           .nodes = graph.num_nodes(),
                           .walkers = options.walkers,
                           .visits_per_row = static_cast<double>(nodes.size(1) * nodes.size(2)),
                           .unit_starts = !loads.defined(),
                           .group = options.group_products ? plan.group : 0};
  WalkTable::Arrays arrays;
  AT_DISPATCH_FLOATING_TYPES(dtype, kOp, [&] {
    arrays = build_table<scalar_t>(source, [&]() -> BatchFiller<scalar_t> {
      return GivenWalks<scalar_t>(kept_nodes, kept_loads, plan, steps, options.first_walker);
    });
  });
  return {std::move(arrays), options, plan.max_hops, /*sampled=*/false};
}

}  // namespace topomask
