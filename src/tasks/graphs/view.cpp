#include <ATen/ATen.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <array>

#include "tasks/graphs/task.h"
#include "topomask/tasks/graphs.h"

namespace topomask {
namespace {

/// The nodes nearest to `node`, breadth first, itself first.
std::vector<int64_t> nearest_nodes(const Graph& graph, int64_t node, int64_t most) {
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = graph.columns().const_data_ptr<int32_t>();
  std::vector<int64_t> found{node};
  std::vector<bool> seen(static_cast<size_t>(graph.num_nodes()));
  seen[static_cast<size_t>(node)] = true;
  for (size_t next = 0; next < found.size() && std::ssize(found) < most; ++next) {
    for (int64_t e = offset[found[next]]; e < offset[found[next] + 1] && std::ssize(found) < most; ++e) {
      if (seen[static_cast<size_t>(column[e])]) continue;
      seen[static_cast<size_t>(column[e])] = true;
      found.push_back(column[e]);
    }
  }
  return found;
}

}  // namespace

GraphView view_graph(Task& of, const std::string& split, int64_t place, int64_t most_nodes) {
  auto* task = dynamic_cast<GraphTask*>(&of);
  TORCH_CHECK(task != nullptr, "view_graph: the task must be graphs, got ", of.config().task);
  const std::vector<int64_t>& places = task->places(split);
  TORCH_CHECK(place >= 0 && place < std::ssize(places), "view_graph: place must be in [0, ", std::ssize(places),
              "), the ", split, " split, got ", place);
  TORCH_CHECK(most_nodes >= 1, "view_graph: most_nodes must be >= 1, got ", most_nodes);
  task->model().eval();
  TaskBatch batch = make_batch(task->data(), task->evaluation_structure(),
                               std::array{places[static_cast<size_t>(place)]}, task->device());
  TORCH_CHECK(batch.rows.size(0) > 0, "view_graph: item ", place, " of the ", split, " split has no label");
  batch.sample.features = batch.sample.features.detach().clone().requires_grad_(true);
  const at::AutoGradMode with_gradient(true);
  const at::Tensor logits = task->graph_model().forward(batch.sample, batch.structure).index_select(0, batch.rows);
  const at::Tensor all = logits.to(at::kFloat).log_softmax(-1), chances = all[0];
  chances.max().backward();
  const at::Tensor gradient = batch.sample.features.grad();
  const at::Tensor influence = gradient.defined() ? gradient.norm(2, {1}).to(at::kCPU, at::kDouble)
                                                  : at::zeros({batch.sample.graph.num_nodes()}, at::kDouble);
  const Graph graph = batch.sample.graph.to(at::kCPU);
  const bool of_node = task->data().set.node_labels;
  const int64_t node = of_node ? batch.rows[0].item<int64_t>() : influence.argmax().item<int64_t>();
  const at::NoGradGuard no_grad;
  const at::Tensor attention = task->graph_model().attention_rows(batch.sample, batch.structure, node);
  const bool whole = graph.num_nodes() <= most_nodes;
  const at::Tensor drawn =
      whole ? at::arange(graph.num_nodes(), at::kLong) : at::tensor(nearest_nodes(graph, node, most_nodes), at::kLong);
  return {.graph = whole ? graph : induced_subgraph(graph, drawn),
          .label = batch.labels[0].item<int64_t>(),
          .probabilities = chances.detach().exp().to(at::kCPU),
          .node = whole ? node : 0,
          .labelled = of_node ? batch.rows.to(at::kCPU) : at::empty({0}, at::kLong),
          .labels = (of_node ? batch.labels : batch.labels.slice(0, 0, 0)).to(at::kCPU),
          .guesses = (of_node ? all : all.slice(0, 0, 0)).detach().exp().to(at::kCPU),
          .influence = influence.index_select(0, drawn),
          .attention = attention.defined()
                           ? attention.to(at::kCPU, at::kDouble).nanmean(1).mean(0).index_select(0, drawn)
                           : attention};
}

}  // namespace topomask
