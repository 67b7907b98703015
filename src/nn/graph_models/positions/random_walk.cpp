#include "nn/graph_models/positions/random_walk.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <vector>

namespace topomask {
namespace {

/// A distribution over few of many nodes.
struct Spread {
  explicit Spread(int64_t nodes) : value(static_cast<size_t>(nodes), 0.0) {}

  void add(int32_t node, double amount) {
    if (amount == 0) return;  // underflow: a place is listed once only while its value is not 0
    if (value[static_cast<size_t>(node)] == 0) places.push_back(node);
    value[static_cast<size_t>(node)] += amount;
  }
  void clear() {
    for (const int32_t node : places) value[static_cast<size_t>(node)] = 0;
    places.clear();
  }
  double dot(const Spread& other) const {
    double sum = 0;
    for (const int32_t node : places) sum += value[static_cast<size_t>(node)] * other.value[static_cast<size_t>(node)];
    return sum;
  }

  std::vector<double> value;
  std::vector<int32_t> places;
};

/// The walks of nodes one after another, in memory that they share.
class ReturningWalks {
 public:
  ReturningWalks(const Graph& graph, const std::vector<double>& root)
      : offset_(graph.offsets().const_data_ptr<int64_t>()),
        column_(graph.columns().const_data_ptr<int32_t>()),
        symmetric_(!graph.directed()),
        root_(root),
        now_(graph.num_nodes()),
        next_(graph.num_nodes()) {}

  void probabilities(int32_t start, int64_t steps, double* out) {
    now_.clear();
    now_.add(start, 1);
    for (int64_t t = 1; t <= steps; t += symmetric_ ? 2 : 1) {
      step();
      // Between now = W^s e and next = W^{s+1} e, t = 2s + 1; a directed walk has next = (P^t)ᵀ e.
      out[t - 1] = symmetric_ ? now_.dot(next_) : next_.value[static_cast<size_t>(start)];
      if (symmetric_ && t < steps) out[t] = next_.dot(next_);
      std::swap(now_, next_);
    }
  }

 private:
  void step() {
    next_.clear();
    for (const int32_t u : now_.places) {
      const int64_t first = offset_[u], last = offset_[u + 1];
      const double share = now_.value[static_cast<size_t>(u)] *
                           (symmetric_ ? root_[static_cast<size_t>(u)] : 1 / static_cast<double>(last - first));
      for (int64_t e = first; e < last; ++e) {
        const int32_t v = column_[e];
        next_.add(v, symmetric_ ? share * root_[static_cast<size_t>(v)] : share);
      }
    }
  }

  const int64_t* offset_;
  const int32_t* column_;
  bool symmetric_;
  const std::vector<double>& root_;  // d^{-1/2}
  Spread now_, next_;
};

}  // namespace

at::Tensor return_probabilities(const Graph& graph, int64_t steps) {
  const int64_t nodes = graph.num_nodes();
  const at::Tensor degrees = graph.degrees();
  std::vector<double> root(static_cast<size_t>(nodes));
  for (int64_t i = 0; i < nodes; ++i) {
    root[static_cast<size_t>(i)] =
        1 / std::sqrt(std::max(1.0, static_cast<double>(degrees.const_data_ptr<int64_t>()[i])));
  }
  at::Tensor out = at::zeros({nodes, steps}, at::kDouble);
  double* rows = out.mutable_data_ptr<double>();
  // A workspace is as long as the graph: no more of them than threads.
  const int64_t grain = std::max<int64_t>(256, (nodes + at::get_num_threads() - 1) / at::get_num_threads());
  at::parallel_for(0, nodes, grain, [&](int64_t begin, int64_t end) {
    ReturningWalks walks(graph, root);
    for (int64_t i = begin; i < end; ++i) walks.probabilities(static_cast<int32_t>(i), steps, rows + i * steps);
  });
  return out.to(graph.weights().scalar_type());
}

}  // namespace topomask
