#include <ATen/ATen.h>

#include "topomask/masks.h"
#include "topomask/power_series.h"
#include "torture/masks.h"

namespace topomask::torture {
namespace {

MaskValue plain_value(const at::Tensor& matrix) {
  return {matrix, matrix.detach().abs()};
}

DrawnMask draw_none(MaskDraw& d) {
  const int64_t n = draw_nodes(d.draw);
  return d.finish("", none_mask(n), [n](const auto&) { return plain_value(at::ones({n, n}, at::kDouble)); });
}

DrawnMask draw_causal(MaskDraw& d) {
  const int64_t n = draw_nodes(d.draw);
  return d.finish("", causal_mask(n), [n](const auto&) { return plain_value(at::ones({n, n}, at::kDouble).tril()); });
}

/// Entries of one or of both signs, some of them exactly 0.
at::Tensor entries(MaskDraw& d, const std::vector<int64_t>& shape, std::string& what) {
  const bool both = d.draw.chance("both_signs", 30);
  at::Tensor values = both ? d.draw.normal("values", shape) : d.draw.uniform("values", shape, 0.05, 1.0);
  const int64_t zeros = d.draw.pick<int64_t>("zeros", {0, 30, 90});
  values = values * (d.draw.uniform("present", shape, 0, 1) >= static_cast<double>(zeros) / 100);
  what = when(both, "both signs") + when(zeros > 0, std::to_string(zeros) + " % zeros");
  return values;
}

DrawnMask draw_dense(MaskDraw& d) {
  const int64_t n = draw_nodes(d.draw);
  std::string what;
  const at::Tensor values = entries(d, d.per_head({n, n}), what);
  const at::Tensor matrix = d.leaf("matrix", values);
  return d.finish(what, dense_mask(matrix), [](const auto& leaves) { return plain_value(leaves[0]); });
}

DrawnMask draw_sparse(MaskDraw& d) {
  const int64_t n = draw_nodes(d.draw);
  const double density = d.draw.pick("density", {0.05, 0.2, 0.8});
  const at::Tensor present = d.draw.uniform("pattern", {n, n}, 0, 1) < density;
  const at::Tensor places = present.nonzero().contiguous();
  at::Tensor offsets = at::zeros({n + 1}, at::kLong);
  if (n > 0) offsets.narrow(0, 1, n).copy_(present.sum(1).cumsum(0));
  const at::Tensor rows = places.select(1, 0), columns = places.select(1, 1);
  const auto pattern = std::make_shared<SparsePattern>(n, n, offsets, columns.to(at::kInt).contiguous());
  std::string what;
  const at::Tensor drawn = entries(d, d.per_head({pattern->entries()}), what);
  const at::Tensor values = d.leaf("values", drawn);
  const auto reference = [n, rows, columns](const auto& leaves) {
    const at::Tensor& v = leaves[0];
    if (v.dim() == 1) return plain_value(at::zeros({n, n}, at::kDouble).index_put({rows, columns}, v));
    const at::Tensor wide = at::zeros({n, n, v.size(0)}, at::kDouble).index_put({rows, columns}, v.t());
    return plain_value(wide.permute({2, 0, 1}));
  };
  return d.finish("(density " + std::to_string(density) + what + ")", sparse_mask({pattern, values}), reference);
}

DrawnMask draw_neighbours(MaskDraw& d) {
  const DrawnGraph graph = draw_graph(d.draw, d.dtype);
  const at::Tensor edges = graph.edges.logical_or(at::eye(graph.nodes(), at::kBool));
  return d.finish("(" + graph.what + ")", neighbours_mask(graph.graph),
                  [edges](const auto&) { return plain_value(edges.to(at::kDouble)); });
}

/// W + I, W with a weight for every edge, or one given for every entry.
DrawnMask draw_weighted_neighbours(MaskDraw& d) {
  const DrawnGraph drawn = draw_graph(d.draw, d.dtype);
  const int64_t n = drawn.nodes();
  const auto with_identity = [n](const at::Tensor& w) {
    const at::Tensor identity = at::eye(n, at::kDouble);
    return MaskValue{w + identity, w.detach().abs() + identity};
  };
  if (d.draw.chance("given", 50)) {
    const Graph& graph = drawn.graph;
    const at::Tensor rows = at::repeat_interleave(graph.offsets().diff()), columns = graph.columns().to(at::kLong);
    const at::Tensor w = d.leaf("weights", d.draw.normal("weights", {graph.num_entries()}));
    return d.finish("(given, " + drawn.what + ")", weighted_neighbours_mask(graph, w), [=](const auto& leaves) {
      return with_identity(at::zeros({n, n}, at::kDouble).index_put({rows, columns}, leaves[0]));
    });
  }
  const LearntWeights weights = learn_weights(d, drawn);
  DrawnMask result = d.finish("(" + drawn.what + ")", weighted_neighbours_mask(weights.graph),
                              [=](const auto& leaves) { return with_identity(weights.dense(leaves[0])); });
  result.follows = false;  // the weights of the entries are gathered once
  return result;
}

DrawnMask draw_power_series(MaskDraw& d) {
  const DrawnGraph graph = draw_graph(d.draw, d.dtype);
  const int64_t terms = 1 + d.draw.below("terms", 5);
  const at::Tensor alpha =
      d.leaf("alpha", d.draw.uniform("alpha", d.per_head({terms}), d.draw.chance("both_signs", 30) ? -1.0 : 0.1, 1.0));
  const bool only_operator = d.draw.chance("operator_only", 20), learns = d.draw.chance("learn_weights", 20);
  const PowerSeriesOptions options{.max_sparse_entries = only_operator ? 0 : int64_t{1} << 26};
  const std::string what = "(" + std::to_string(terms) + " terms, " + graph.what + when(only_operator, "never sparse") +
                           when(learns, "weights learned") + ")";
  if (!learns) {
    return d.finish(what, power_series_mask(graph.graph, alpha, options),
                    [w = graph.weights](const auto& leaves) { return power_series(w, leaves[0]); });
  }
  const LearntWeights weights = learn_weights(d, graph);
  DrawnMask result =
      d.finish(what, power_series_mask(weights.graph, alpha, options),
               [dense = weights.dense](const auto& leaves) { return power_series(dense(leaves[1]), leaves[0]); });
  result.follows = false;  // the weights of the entries are gathered once
  return result;
}

}  // namespace

std::vector<Family> basic_families() {
  return {{"none", draw_none},
          {"causal", draw_causal},
          {"dense", draw_dense},
          {"sparse", draw_sparse},
          {"neighbours", draw_neighbours},
          {"weighted neighbours", draw_weighted_neighbours},
          {"power series", draw_power_series}};
}

}  // namespace topomask::torture
