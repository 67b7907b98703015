#include <ATen/ATen.h>

#include "command.h"
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

constexpr int64_t kRowsCompared = 64;    // for the error
constexpr int64_t kLargestDense = 4096;  // nodes of a mask that may be drawn or saved whole

/// ‖M̂ − M‖/‖M‖ over a sample of rows.
double relative_error(const Mask& estimate, const Mask& exact) {
  const at::Tensor rows = at::linspace(0, static_cast<double>(exact.size() - 1), std::min(exact.size(), kRowsCompared))
                              .round()
                              .to(at::kLong);
  const at::Tensor truth = mask_rows(exact, rows);
  return ((mask_rows(estimate, rows) - truth).norm() / truth.norm()).item<double>();
}

Json inspect(const NamedGraph& graph, const NamedMask& named) {
  const Mask& mask = *named.mask;
  const int64_t nodes = mask.size();
  Json result{{"kind", named.kind}, {"mask", mask.name()}, {"nodes", nodes}, {"edges", graph.graph.num_edges()}};
  const MaskCounts counts = mask.counts();
  if (const auto sparse = mask.sparse()) {
    const auto entries = sparse->pattern->entries();
    result["nonzeros"] = entries;
    result["nonzeros_per_row"] = static_cast<double>(entries) / static_cast<double>(std::max<int64_t>(1, nodes));
    result["part_of_all"] = static_cast<double>(entries) / (static_cast<double>(nodes) * static_cast<double>(nodes));
  }
  if (counts.factor_entries) result["factor_entries"] = *counts.factor_entries;
  result["work_per_column"] = counts.operator_work;
  if (nodes > 0) {
    const at::NoGradGuard no_grad;
    const at::Tensor sums = mask.matmul(at::ones({nodes, 1}, mask.dtype().value_or(at::kFloat)));
    result["row_sum_min"] = sums.min().item<double>();
    result["row_sum_mean"] = sums.mean().item<double>();
    result["row_sum_max"] = sums.max().item<double>();
    if (named.exact) result["error"] = relative_error(mask, *named.exact);
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

/// Rows over the grid, or the whole matrix where there is no grid.
void draw(const NamedGraph& graph, const NamedMask& named, std::vector<int64_t> nodes, const std::string& path) {
  std::vector<at::Tensor> images;
  if (graph.dims.empty() && nodes.empty()) {
    TORCH_CHECK(named.mask->size() <= kLargestDense, "mask: a matrix is drawn up to ", kLargestDense, " nodes, got ",
                named.mask->size(), "; --node N draws single rows");
    images.push_back(colour_map(four_decades(named.mask->dense().detach())));
  } else {
    if (nodes.empty()) nodes = telling_nodes(named.mask->size(), graph.dims);
    const at::Tensor rows = mask_rows(*named.mask, at::tensor(nodes))[0];
    for (int64_t r = 0; r < rows.size(0); ++r)
      images.push_back(colour_map(over_grid(four_decades(rows[r]), graph.dims)));
  }
  const int64_t longest = std::max(images[0].size(1), images[0].size(2));
  write_png(path, panels(images, 4, std::clamp<int64_t>(320 / std::max<int64_t>(1, longest), 1, 16)));
}

int run(const MaskCommand& arguments, bool json) {
  const NamedGraph graph = arguments.graph.make();
  const NamedMask named = arguments.mask.make(graph);
  for (const int64_t node : arguments.nodes) {
    if (node < 0 || node >= named.mask->size()) {
      throw UsageError("--node must be from 0 to " + std::to_string(named.mask->size() - 1) + ", got " +
                       std::to_string(node));
    }
  }
  Json result = inspect(graph, named);
  if (!arguments.save.empty()) {
    save_mask(named, arguments.save);
    result["file"] = arguments.save;
  }
  if (!arguments.png.empty()) {
    draw(graph, named, arguments.nodes, arguments.png);
    result["picture"] = arguments.png;
  }
  print(result, json);
  return 0;
}

}  // namespace

void add_mask(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<MaskCommand>();
  CLI::App* command =
      add_command(app, context, "mask", "Make, inspect and draw a mask over a graph",
                  "  topomask mask grid:28x28 --kind grf --walkers 20 --halting-probability 0.1 --png rows.png\n"
                  "  topomask mask roads.txt.gz --kind series --f 1,0.5,0.25 --save mask.npz\n"
                  "  topomask mask tree:255 --kind forest --f geometric:0.7 --terms 14 --png matrix.png --json\n"
                  "'error' is the relative Frobenius error against the exact mask, over a sample of rows.",
                  [arguments, &context] { return run(*arguments, context.json); });
  arguments->graph.add_to(*command);
  arguments->mask.add_to(*command, "grf");
  command->add_option("--png", arguments->png, "draw rows over a grid, or the matrix, brightness over four decades");
  command->add_option("--node", arguments->nodes, "whose row to draw; may be repeated");
  command->add_option("--save", arguments->save, "write the matrix to this file, .npz or .mtx");
}

}  // namespace topomask::apps
