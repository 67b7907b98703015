#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <numbers>

#include "topomask/encodings.h"
#include "torture/masks.h"

namespace topomask::torture {
namespace {

DrawnMask draw_stochastic_positions(MaskDraw& d) {
  Draw& draw = d.draw;
  const int64_t n = draw_nodes(draw), count = 1 + draw.below("frequencies", 5);
  const bool with_phases = draw.chance("phases", 60);
  const std::vector<int64_t> shape = d.per_head({count});
  const at::Tensor omega = d.leaf("frequencies", draw.uniform("omega", shape, 0, 1)),
                   a = d.leaf("amplitudes", draw.uniform("a", shape, 0.2, 1));
  at::Tensor phases;
  if (with_phases) phases = d.leaf("phases", draw.uniform("theta", shape, -1, 1));
  const StochasticPositionalOptions options{.realisations = draw.pick<int64_t>("realisations", {0, 1, 7, 64}),
                                            .seed = draw.number("noise")};
  at::Tensor noise;
  if (options.realisations > 0) {
    std::vector<int64_t> sizes = shape;
    sizes.back() *= 2;
    sizes.push_back(options.realisations);
    noise = at::randn(sizes, at::detail::createCPUGenerator(options.seed), at::dtype(at::kDouble)) /
            std::sqrt(static_cast<double>(options.realisations));
  }
  const auto reference = [=](const auto& leaves) {
    const at::Tensor positions = at::arange(n, at::kDouble).unsqueeze(-1);
    const auto side = [&](const at::Tensor& shift) {
      const at::Tensor angle = positions * leaves[0].unsqueeze(-2) + shift;
      const at::Tensor amplitude = at::cat({leaves[1], leaves[1]}, -1).unsqueeze(-2);
      const at::Tensor waves = at::cat({angle.cos(), angle.sin()}, -1) * amplitude;
      // An angle is as accurate as the frequency that is multiplied by the position.
      const at::Tensor bound = amplitude.detach().abs() * (1 + angle.detach().abs().amax());
      const at::Tensor wide = bound.expand_as(waves);
      if (!noise.defined()) return MaskValue{waves, wide};
      return MaskValue{at::matmul(waves, noise), at::matmul(wide, noise.abs())};
    };
    const at::Tensor zero = at::zeros({}, at::kDouble);
    if (n == 0) {
      const at::Tensor none =
          at::zeros(leaves[0].dim() == 2 ? std::vector<int64_t>{leaves[0].size(0), 0, 0} : std::vector<int64_t>{0, 0},
                    at::kDouble);
      return MaskValue{none, none};
    }
    return product_of(side(with_phases ? leaves[2].unsqueeze(-2) : zero), side(zero));
  };
  return d.finish("(" + std::to_string(options.realisations) + " realisations, " + std::to_string(count) +
                      " frequencies" + when(with_phases, "phases") + ")",
                  stochastic_positional_mask(n, omega, a, phases, options), reference);
}

DrawnMask draw_centrality(MaskDraw& d) {
  const DrawnGraph graph = draw_graph(d.draw, d.dtype);
  const CentralityOptions options{.logits = d.draw.chance("logits", 40)};
  const int64_t terms = 1 + d.draw.below("terms", 6);
  const at::Tensor z = d.leaf(
      "z", options.logits ? d.draw.normal("z", d.per_head({terms})) : d.draw.uniform("z", d.per_head({terms}), 0, 1));
  const at::Tensor degree = graph.degrees().to(at::kLong).clamp_max(terms - 1);
  return d.finish("(" + std::to_string(terms) + " degrees" + when(options.logits, "logits") + ", " + graph.what + ")",
                  centrality_mask(graph.graph, z, options), [degree, options](const auto& leaves) {
                    const at::Tensor level =
                        (options.logits ? leaves[0].sigmoid() : leaves[0]).index_select(-1, degree);
                    const at::Tensor angle = (level.unsqueeze(-1) + level.unsqueeze(-2)) * (std::numbers::pi / 4);
                    return MaskValue{angle.sin(), at::full(angle.sizes(), 2.0, at::kDouble)};
                  });
}

DrawnMask draw_free_features(MaskDraw& d) {
  const int64_t n = draw_nodes(d.draw), rank = d.draw.pick<int64_t>("rank", {1, 2, 5, 16, 33});
  const bool two = d.draw.chance("two_sides", 60);
  const std::vector<int64_t> shape = d.per_head({n, rank});
  const double low = d.draw.chance("both_signs", 40) ? -1.0 : 0.05;
  const at::Tensor left = d.leaf("left", d.draw.uniform("left", shape, low, 1));
  at::Tensor right;
  if (two) right = d.leaf("right", d.draw.uniform("right", shape, low, 1));
  return d.finish("(rank " + std::to_string(rank) + (two ? ", two sides)" : ", one side)"),
                  free_features_mask(left, right), [two](const auto& leaves) {
                    const auto side = [](const at::Tensor& x) { return MaskValue{x, x.detach().abs()}; };
                    return product_of(side(leaves[0]), side(leaves[two ? 1 : 0]));
                  });
}

DrawnMask draw_shortest_path(MaskDraw& d) {
  const DrawnGraph graph = draw_graph(d.draw, d.dtype);
  const int64_t terms = 1 + d.draw.below("terms", 6);
  const at::Tensor bias =
      d.leaf("bias", d.draw.uniform("bias", d.per_head({terms + 1}), d.draw.chance("both_signs", 30) ? -1.0 : 0.05, 1));
  const at::Tensor distance = hop_distances(graph.edges);
  const at::Tensor place = at::where(distance < 0, terms, distance.clamp_max(terms - 1));
  const bool given = d.draw.chance("given_distances", 30);
  return d.finish("(" + std::to_string(terms) + " distances, " + graph.what + when(given, "given distances") + ")",
                  given ? shortest_path_mask(distance.to(at::kInt), bias) : shortest_path_mask(graph.graph, bias),
                  [place](const auto& leaves) {
                    std::vector<int64_t> shape = leaves[0].sizes().vec();
                    shape.back() = place.size(0);
                    shape.push_back(place.size(0));
                    const at::Tensor matrix = leaves[0].index_select(-1, place.reshape({-1})).view(shape);
                    return MaskValue{matrix, matrix.detach().abs()};
                  });
}

}  // namespace

std::vector<Family> encoding_families() {
  return {{"stochastic positions", draw_stochastic_positions},
          {"centrality", draw_centrality},
          {"free features", draw_free_features},
          {"shortest path", draw_shortest_path}};
}

}  // namespace topomask::torture
