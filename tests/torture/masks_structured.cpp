#include <ATen/ATen.h>

#include <cmath>
#include <sstream>

#include "topomask/diffusion.h"
#include "topomask/toeplitz.h"
#include "torture/masks.h"

namespace topomask::torture {
namespace {

DrawnMask draw_toeplitz(MaskDraw& d) {
  Draw& draw = d.draw;
  const int64_t axes = 1 + draw.below("axes", 4), n = draw_nodes(draw);
  // About N nodes: axes of random lengths whose product stays below.
  std::vector<int64_t> dims;
  int64_t left = n;
  for (int64_t axis = 0; axis < axes; ++axis) {
    const int64_t most = axis + 1 == axes ? left : std::min<int64_t>(left, 7);
    dims.push_back(axis + 1 == axes ? left : std::min(most, 1 + draw.below("axis" + std::to_string(axis), most)));
    left = dims.back() == 0 ? 0 : left / dims.back();
  }
  const bool by_distance = draw.chance("by_distance", 35);
  const ToeplitzOptions options{.logarithmic = draw.chance("logarithmic", 30),
                                .causality = draw.pick("causality", {Causality::none, Causality::none,
                                                                     Causality::row_major, Causality::first_axis})};
  std::vector<int64_t> shape;
  int64_t distances = 1, nodes = 1;
  for (const int64_t size : dims)
    shape.push_back(std::max<int64_t>(0, 2 * size - 1)), distances += size - 1, nodes *= size;
  if (by_distance) shape = {nodes == 0 ? 0 : distances};
  const at::Tensor values = draw.uniform("values", d.per_head(shape), options.logarithmic ? -2.0 : 0.05, 1.0);
  const bool both = !options.logarithmic && draw.chance("both_signs", 25);
  const at::Tensor parameter = d.leaf("offsets", both ? values - 0.5 : values);
  std::string what = "(";
  for (const int64_t size : dims) what += (what.size() > 1 ? "x" : "") + std::to_string(size);
  what += when(by_distance, "by distance") + when(options.logarithmic, "logarithmic") +
          when(options.causality == Causality::row_major, "causal") +
          when(options.causality == Causality::first_axis, "causal in the first axis") + ")";
  DrawnMask result = d.finish(
      what, by_distance ? toeplitz_distance_mask(dims, parameter, options) : toeplitz_mask(dims, parameter, options),
      [dims, by_distance, options](const auto& leaves) {
        return block_toeplitz(dims, leaves[0], by_distance, options);
      });
  result.normwise = true;
  return result;
}

constexpr const char* kGenerators[] = {"adjacency", "Laplacian", "normalised Laplacian"};

at::Tensor lambda_leaf(MaskDraw& d, double most) {
  const double scale = d.draw.pick("lambda_scale", {1.0, 0.0, 0.01});
  return d.leaf("lambda", d.draw.uniform("lambda", d.per_head({}), 0.1, most) * scale);
}

DrawnMask draw_diffusion(MaskDraw& d) {
  const auto generator = static_cast<Generator>(d.draw.below("generator", 3));
  const DrawnGraph graph =
      draw_graph(d.draw, d.dtype,
                 {.directed = false, .negative = generator != Generator::normalised_laplacian, .most_nodes = 131});
  const bool lanczos = d.draw.chance("lanczos", 35);
  const DiffusionOptions options{.generator = generator,
                                 .tolerance = d.draw.pick("tolerance", {1e-6, 1e-12, 1e-3}),
                                 .method = lanczos ? DiffusionMethod::lanczos : DiffusionMethod::chebyshev};
  // A larger exponent makes exp(λA) so large that nothing but its first eigenvector is left.
  const double norm = graph.nodes() == 0 ? 1 : graph.weights.abs().sum(1).max().item<double>();
  const at::Tensor lambda = lambda_leaf(d, generator == Generator::adjacency ? 3 / std::max(1.0, norm) : 2.0);
  const bool learns = d.draw.chance("learn_weights", 20);
  LearntWeights weights{graph.graph, [w = graph.weights](const at::Tensor&) { return w; }};
  if (learns) weights = learn_weights(d, graph);
  std::ostringstream what;
  what << "(" << kGenerators[static_cast<int>(generator)] << (lanczos ? ", Lanczos" : ", Chebyshev") << ", tolerance "
       << options.tolerance << ", " << graph.what << when(learns, "weights learned") << ")";
  DrawnMask result = d.finish(what.str(), diffusion_mask(weights.graph, lambda, options),
                              [dense = weights.dense, generator](const auto& leaves) {
                                return diffusion(dense(leaves.back()), leaves[0], generator);
                              });
  result.follows = !learns;
  result.slope = 1;
  // A Laplacian with negative weights has growing modes; the tolerance is relative to the norm of M in every case.
  result.accuracy = 4 * options.tolerance;
  result.normwise = true;
  return result;
}

DrawnMask draw_product_diffusion(MaskDraw& d) {
  const int64_t count = 1 + d.draw.below("factors", 3);
  const auto generator = static_cast<Generator>(d.draw.below("generator", 2));
  std::vector<Graph> factors;
  at::Tensor whole = at::zeros({1, 1}, at::kDouble);
  std::string what = std::string("(") + kGenerators[static_cast<int>(generator)];
  const int64_t most = count == 1 ? 64 : count == 2 ? 11 : 5;
  for (int64_t f = 0; f < count; ++f) {
    const Draw::Scope scope(d.draw, "factor" + std::to_string(f));
    const DrawnGraph graph = draw_graph(d.draw, d.dtype, {.directed = false, .most_nodes = most});
    factors.push_back(graph.graph);
    const at::Tensor t = generator_of(graph.weights, generator);
    const auto eye = [](const at::Tensor& like) { return at::eye(like.size(0), at::kDouble); };
    whole = at::kron(whole, eye(t)) + at::kron(eye(whole), t);
    what += ", " + std::to_string(graph.nodes()) + " nodes of " + graph.what;
  }
  const double norm = whole.numel() == 0 ? 1 : std::max(1.0, whole.abs().sum(1).max().item<double>());
  const at::Tensor lambda = lambda_leaf(d, 3 / norm);
  DrawnMask result =
      d.finish(what + ")", product_diffusion_mask(factors, lambda, generator), [whole](const auto& leaves) {
        return diffusion(-whole, leaves[0], Generator::adjacency);  // T = whole
      });
  result.slope = 1;
  return result;
}

DrawnMask draw_hypercube(MaskDraw& d) {
  const int64_t dimensions = d.draw.below("dimensions", 8);
  const at::Tensor lambda = lambda_leaf(d, 1.5);
  return d.finish("(" + std::to_string(dimensions) + " dimensions)", hypercube_diffusion_mask(dimensions, lambda),
                  [dimensions](const auto& leaves) { return hypercube(dimensions, leaves[0]); });
}

DrawnMask draw_low_rank_diffusion(MaskDraw& d) {
  const int64_t n = draw_nodes(d.draw, 131), rank = d.draw.pick<int64_t>("rank", {1, 2, 3, 5, 8});
  const double scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, n * rank)));
  const at::Tensor u = d.leaf("u", d.draw.normal("u", {n, rank}) * scale),
                   v = d.leaf("v", d.draw.chance("symmetric", 30) ? u.detach().to(at::kDouble)
                                                                  : d.draw.normal("v", {n, rank}) * scale);
  const at::Tensor lambda = lambda_leaf(d, 1.5);
  return d.finish("(rank " + std::to_string(rank) + ")", low_rank_diffusion_mask(u, v, lambda),
                  [](const auto& leaves) { return low_rank_diffusion(leaves[0], leaves[1], leaves[2]); });
}

}  // namespace

std::vector<Family> structured_families() {
  return {{"Toeplitz", draw_toeplitz},
          {"diffusion", draw_diffusion},
          {"product diffusion", draw_product_diffusion},
          {"hypercube diffusion", draw_hypercube},
          {"low-rank diffusion", draw_low_rank_diffusion}};
}

}  // namespace topomask::torture
