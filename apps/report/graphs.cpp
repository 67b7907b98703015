#include "topomask/tasks/graphs.h"

#include <ATen/ATen.h>

#include "core/out_of_memory.h"
#include "graph_picture.h"
#include "report/sections.h"

namespace topomask::apps {
namespace {

constexpr int64_t kNodesDrawn = 150;

/// Places spread over the split, the same for every model.
std::vector<int64_t> spread_places(int64_t size, int64_t count) {
  std::vector<int64_t> places;
  const int64_t chosen = std::min(size, count);
  for (int64_t i = 0; i < chosen; ++i) places.push_back(i * size / chosen);
  return places;
}

std::string verdict(const GraphView& view, const std::vector<std::string>& classes) {
  const auto guess = view.probabilities.argmax().item<int64_t>();
  const std::string text = format("%s (%.0f %%)", escape(classes.at(static_cast<size_t>(guess))).c_str(),
                                  100 * view.probabilities[guess].item<double>());
  return guess == view.label ? text : "<span class=\"soft\">✗ " + text + "</span>";
}

/// A row of graphs with the influence of their nodes and, below, with what one node attends to.
std::string rows_of(const GroupTask& group, const std::string& split, const std::vector<int64_t>& places) {
  Task& task = *group.loaded.task;
  const std::vector<std::string> classes = task.classes();
  std::string influence, attention;
  for (const int64_t place : places) {
    const GraphView view = view_graph(task, split, place, kNodesDrawn);
    const at::Tensor layout = spring_layout(view.graph);
    const std::string name = format("%s, %s %ld", group.label.c_str(), task.items(), static_cast<long>(place));
    influence += "<td>" + graph_picture(view.graph, layout, view.influence, {.title = name + ": influence of nodes"}) +
                 "<br>" + verdict(view, classes) + "</td>";
    if (!view.attention.defined()) continue;
    attention += "<td>" +
                 graph_picture(view.graph, layout, view.attention,
                               {.title = name + ": attention of the marked node", .marked = view.node}) +
                 "</td>";
  }
  std::string rows =
      "<tr><td>" + escape(group.label) + "<br><span class=\"soft\">influence</span></td>" + influence + "</tr>\n";
  if (!attention.empty()) {
    rows += "<tr><td><span class=\"soft\">attention of the ringed node, mean over layers and heads</span></td>" +
            attention + "</tr>\n";
  }
  return rows;
}

std::string true_classes(Task& task, const std::string& split, const std::vector<int64_t>& places) {
  const std::vector<std::string> classes = task.classes();
  std::string row = "<tr><td>true class</td>";
  for (const int64_t place : places) {
    const int64_t label = view_graph(task, split, place, kNodesDrawn).label;
    row += "<td>" + (label < 0 ? "none" : escape(classes.at(static_cast<size_t>(label)))) + "</td>";
  }
  return row + "</tr>\n";
}

}  // namespace

Section graphs_section(const std::vector<GroupTask>& tasks, const std::string& split, int64_t examples) {
  std::string body =
      "<p>Nodes are red where the model's guess depends on their features (the norm of the gradient of its "
      "logarithm), grey where it does not; under each graph the guess. Where the model has attention, the row below "
      "shows the weights of the ringed node.</p>\n";
  try {
    TORCH_CHECK(!tasks.empty(), "no model could be loaded");
    const std::vector<int64_t> places =
        spread_places(tasks[0].loaded.task->size(split), std::min<int64_t>(examples, 6));
    body += "<div class=\"wide\"><table class=\"maps\">" + true_classes(*tasks[0].loaded.task, split, places);
    for (const GroupTask& group : tasks) body += rows_of(group, split, places);
    body += "</table></div>\n";
  } catch (const c10::Error& error) {
    body += "<p class=\"soft\">There are no pictures here: " + escape(error_text(error)) + "</p>\n";
  }
  return {"graphs", "What they look at", body};
}

}  // namespace topomask::apps
