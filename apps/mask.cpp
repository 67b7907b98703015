#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "figure.h"
#include "mask_arguments.h"
#include "output.h"
#include "pictures.h"
#include "topomask/data/image.h"
#include "topomask/graph_io.h"

namespace topomask::apps {
namespace {

struct MaskCommand {
  GraphArguments graph;
  MaskArguments mask;
  std::vector<int64_t> nodes;
  std::string png, save;
};

constexpr int64_t kRowsCompared = 64, kRowsAtOnce = 8;  // for the error
constexpr int64_t kLargestDense = 4096;                 // nodes of a mask that may be drawn or saved whole
constexpr double kEntriesCounted = 1 << 22;             // nonzeros up to which they are counted, not estimated

/// ‖M̂ − M‖/‖M‖ over a sample of rows.
double relative_error(const Mask& estimate, const Mask& exact, Activity& activity) {
  const at::Tensor rows = at::linspace(0, static_cast<double>(exact.size() - 1), std::min(exact.size(), kRowsCompared))
                              .round()
                              .to(at::kLong);
  double off = 0, all = 0;
  for (int64_t first = 0; first < rows.size(0); first += kRowsAtOnce) {
    const at::Tensor some = rows.slice(0, first, first + kRowsAtOnce), truth = mask_rows(exact, some).to(at::kDouble);
    off += (mask_rows(estimate, some) - truth).square().sum().item<double>();
    all += truth.square().sum().item<double>();
    activity.at(static_cast<double>(first + kRowsAtOnce) / static_cast<double>(rows.size(0)));
  }
  return std::sqrt(off / all);
}

/// The nonzeros: counted where that takes no more than the mask's own form, estimated where the form would be large.
void count_nonzeros(const Mask& mask, bool exactly, Json& result) {
  const auto nodes = static_cast<double>(mask.size());
  const auto estimate = mask.counts().sparse_entries;
  if (!estimate) return;
  double entries = *estimate;
  if (exactly || entries <= kEntriesCounted) {
    const auto counted = mask.sparse()->pattern->entries();
    result["nonzeros"] = counted;
    entries = static_cast<double>(counted);
  } else {
    result["nonzeros_estimated"] = entries;
  }
  result["nonzeros_per_row"] = entries / std::max(1.0, nodes);
  result["part_of_all"] = entries / (nodes * nodes);
}

Json inspect(const NamedGraph& graph, const NamedMask& named, bool count_exactly, Activity& activity) {
  const Mask& mask = *named.mask;
  const int64_t nodes = mask.size();
  Json result{{"kind", named.kind}, {"mask", mask.name()}, {"nodes", nodes}, {"edges", graph.graph.num_edges()}};
  const MaskCounts counts = mask.counts();
  activity.stage("counting nonzeros");
  count_nonzeros(mask, count_exactly, result);
  if (counts.factor_entries) result["factor_entries"] = *counts.factor_entries;
  result["work_per_column"] = counts.operator_work;
  if (nodes > 0) {
    const at::NoGradGuard no_grad;
    activity.stage("summing rows");
    const at::Tensor sums = mask.matmul(at::ones({nodes, 1}, mask.dtype().value_or(at::kFloat)));
    result["row_sum_min"] = sums.min().item<double>();
    result["row_sum_mean"] = sums.mean().item<double>();
    result["row_sum_max"] = sums.max().item<double>();
    if (named.exact) {
      activity.stage("comparing rows with the exact mask");
      result["error"] = relative_error(mask, *named.exact, activity);
    }
  }
  return result;
}

void save_mask(const NamedMask& named, const std::string& path) {
  auto matrix = named.mask->sparse();
  if (!matrix) {
    TORCH_CHECK(named.mask->size() <= kLargestDense, "mask: a ", named.kind, " mask of ", named.mask->size(),
                " nodes has no sparse form to save; the whole matrix is written up to ", kLargestDense, " nodes");
    const at::Tensor dense = named.mask->dense().detach();
    const at::Tensor places = dense.nonzero();
    const Graph graph =
        Graph::from_edges(named.mask->size(), places.select(1, 0).contiguous(), places.select(1, 1).contiguous(),
                          dense.index({dense != 0}), {.directed = true});
    matrix = graph.matrix();
  }
  const Graph graph =
      Graph::from_csr(matrix->pattern->offsets(), matrix->pattern->columns(), matrix->values.detach(), true);
  path.ends_with(".npz") ? write_npz(graph, path) : write_matrix_market(graph, path);
}

/// Values [H, W] of one panel, and what stands above it.
struct ValuePanel {
  at::Tensor values;
  std::string caption;
};

/// Rows over the grid, or the whole matrix where there is no grid; those of the exact mask under those of an estimate.
std::vector<ValuePanel> panels_of(const NamedGraph& graph, const NamedMask& named, std::vector<int64_t> nodes) {
  std::vector<ValuePanel> shown;
  const bool whole = graph.dims.empty() && nodes.empty();
  TORCH_CHECK(!whole || named.mask->size() <= kLargestDense, "mask: a matrix is drawn up to ", kLargestDense,
              " nodes, got ", named.mask->size(), "; --node N draws single rows");
  if (nodes.empty() && !whole) nodes = telling_nodes(named.mask->size(), graph.dims);
  const auto add = [&](const Mask& mask, const std::string& prefix) {
    if (whole) {
      shown.push_back({mask.dense().detach().to(at::kFloat), prefix.empty() ? "matrix" : prefix});
      return;
    }
    const at::Tensor rows = mask_rows(mask, at::tensor(nodes))[0];
    for (int64_t r = 0; r < rows.size(0); ++r) {
      shown.push_back({over_grid(rows[r], graph.dims),
                       (prefix.empty() ? "" : prefix + ": ") + node_name(nodes[static_cast<size_t>(r)], graph.dims)});
    }
  };
  add(*named.mask, named.exact ? "sampled" : "");
  if (named.exact) add(*named.exact, "exact");
  return shown;
}

void draw(const NamedGraph& graph, const NamedMask& named, const MaskCommand& arguments) {
  const std::vector<ValuePanel> shown = panels_of(graph, named, arguments.nodes);
  std::vector<at::Tensor> all;
  for (const ValuePanel& panel : shown) all.push_back(panel.values.reshape({-1}));
  const ColourScale scale = scale_for(at::cat(all));
  std::vector<Panel> images;
  for (const ValuePanel& panel : shown) images.push_back({colour_map(scale.brightness(panel.values)), panel.caption});
  const int64_t longest = std::max(images[0].image.size(1), images[0].image.size(2));
  const bool rows = !graph.dims.empty() || !arguments.nodes.empty();
  const int64_t of_a_mask = static_cast<int64_t>(shown.size()) / (named.exact ? 2 : 1);
  const std::string what =
      std::string(rows ? "Rows of" : "Entries of") + " the mask " + named.kind + " over " + arguments.graph.source();
  std::vector<std::string> notes;
  if (const std::string made = arguments.mask.description(); !made.empty()) notes.push_back(made);
  notes.push_back(scale.logarithmic ? "Colours: M_ij, logarithmic over four decades, the same for all panels."
                                    : "Colours: M_ij, linear, the same for all panels.");
  write_png(arguments.png, draw_figure(images,
                                       {.title = what,
                                        .notes = notes,
                                        .across = std::min<int64_t>(of_a_mask, 4),
                                        .zoom = std::clamp<int64_t>(280 / std::max<int64_t>(1, longest), 1, 16)},
                                       &scale));
}

/// Output that cannot be written is reported before the work, not after it.
void check_outputs(const MaskCommand& arguments) {
  if (!arguments.save.empty() && !arguments.save.ends_with(".npz") && !arguments.save.ends_with(".mtx")) {
    throw UsageError("--save must end in .npz or .mtx, got '" + arguments.save + "'");
  }
  check_folder_of("mask", "--save", arguments.save);
  check_folder_of("mask", "--png", arguments.png);
}

/// What inspecting the mask will cost, where it is much.
void announce_work(const NamedMask& named, Activity& activity) {
  constexpr double kMuch = 1e10;
  const double columns = named.exact ? 1 + 2 * kRowsCompared : 1;
  const double work =
      columns * (named.exact ? named.exact->counts().operator_work : named.mask->counts().operator_work);
  if (work < kMuch) return;
  char text[64];
  std::snprintf(text, sizeof(text), "about %.2g multiply-adds to inspect the mask", work);
  activity.announce(text);
}

int run(const MaskCommand& arguments, bool json, Activity& activity) {
  check_outputs(arguments);
  const NamedGraph graph = arguments.graph.make(activity);
  if (arguments.mask.makes_walks()) {
    announce_walks(activity, graph.graph.num_nodes(), arguments.mask.walks().make());
  }
  activity.stage("making the mask");
  const NamedMask named = arguments.mask.make(graph);
  for (const int64_t node : arguments.nodes) {
    if (node < 0 || node >= named.mask->size()) {
      throw UsageError("--node must be from 0 to " + std::to_string(named.mask->size() - 1) + ", got " +
                       std::to_string(node));
    }
  }
  announce_work(named, activity);
  Json result = inspect(graph, named, !arguments.save.empty(), activity);
  if (!arguments.save.empty()) {
    activity.stage("writing " + arguments.save);
    save_mask(named, arguments.save);
    result["file"] = arguments.save;
  }
  if (!arguments.png.empty()) {
    activity.stage("drawing " + arguments.png);
    draw(graph, named, arguments);
    result["picture"] = arguments.png;
  }
  activity.finish();
  print(result, json);
  return 0;
}

}  // namespace

void add_mask(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<MaskCommand>();
  CLI::App* command =
      add_command(app, context, "mask", "Make, inspect and draw a mask over a graph",
                  "  topomask mask grid:28x28 --kind grf --png rows.png\n"
                  "  topomask mask roads.txt.gz --kind series --f 1,0.5,0.25 --save mask.npz\n"
                  "  topomask mask tree:255 --kind forest --f geometric:0.7 --terms 14 --png matrix.png --json\n"
                  "'error' is the relative Frobenius error against the exact mask, over a sample of rows.",
                  [arguments, &context](Activity& activity) { return run(*arguments, context.json, activity); });
  arguments->graph.add_to(*command);
  arguments->mask.walks().set_defaults(200, 0.1);  // few walkers make a mask of blotches
  arguments->mask.add_to(*command, "grf");
  command->add_option("--png", arguments->png,
                      "draw rows over a grid, or the matrix, with a scale; a sampled mask next to the exact one");
  command->add_option("--node", arguments->nodes, "whose row to draw; may be repeated")->check(whole_number(0));
  command->add_option("--save", arguments->save, "write the matrix to this file, .npz or .mtx");
}

}  // namespace topomask::apps
