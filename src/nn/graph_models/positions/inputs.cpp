#include "nn/graph_models/positions/inputs.h"

#include <ATen/ATen.h>

#include "nn/graph_models/edges.h"
#include "nn/graph_models/positions/laplacian.h"
#include "nn/graph_models/positions/random_walk.h"

namespace topomask {
namespace {

constexpr const char* kDegrees = "degree";
constexpr const char* kEigenvectors = "laplacian";
constexpr const char* kReturns = "random_walk";

torch::nn::Linear without_bias(int64_t in, int64_t out) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
}

}  // namespace

StructuralInputs::StructuralInputs(const GraphModelOptions& options) : options_(options) {
  const int64_t width = options.width;
  if (options.max_degree > 0) degree_ = register_parameter("degree", at::zeros({options.max_degree + 1, width}));
  if (options.laplacian_positions > 0) {
    laplacian_ = register_module("laplacian", without_bias(options.laplacian_positions, width));
  }
  if (options.random_walk_positions > 0) {
    random_walk_ = register_module("random_walk", without_bias(options.random_walk_positions, width));
  }
}

NodeRows StructuralInputs::positions(const GraphSet& set) const {
  NodeRows rows;
  const int64_t vectors = std::max(options_.laplacian_positions, options_.wire);
  if (degree_.defined()) rows[kDegrees] = set.graph.degrees().clamp_max(options_.max_degree);
  if (vectors > 0) rows[kEigenvectors] = laplacian_positions(set, vectors);
  if (random_walk_) rows[kReturns] = return_probabilities(set.graph, options_.random_walk_positions);
  return rows;
}

at::Tensor StructuralInputs::eigenvectors(const GraphSample& sample, const GraphStructure& structure) const {
  if (options_.laplacian_positions == 0 && options_.wire == 0) return {};
  const at::Tensor vectors = rows_of(structure, kEigenvectors).to(working_options(sample));
  if (!is_training() || !options_.flip_signs) return vectors;
  const at::Tensor signs = at::randint(0, 2, {sample.graphs, vectors.size(1)}, vectors.options()) * 2 - 1;
  return vectors * signs.index_select(0, sample.membership);
}

at::Tensor StructuralInputs::add_to(const at::Tensor& x, const at::Tensor& eigenvectors, const GraphSample& sample,
                                    const GraphStructure& structure) {
  at::Tensor y = x;
  if (degree_.defined()) y = y + degree_.index_select(0, rows_of(structure, kDegrees));
  if (laplacian_) y = y + laplacian_(eigenvectors.slice(1, 0, options_.laplacian_positions));
  if (random_walk_) y = y + random_walk_(rows_of(structure, kReturns).to(working_options(sample)));
  return y;
}

at::Tensor rotated_by_positions(const at::Tensor& x, const at::Tensor& r, const at::Tensor& omega) {
  const int64_t pairs = omega.size(1);
  const at::Tensor angle = at::matmul(r, omega.mT()).to(x.scalar_type());  // [H, N, pairs]
  const at::Tensor cosine = angle.cos(), sine = angle.sin();
  const at::Tensor both = x.slice(2, 0, 2 * pairs).unflatten(2, {pairs, 2});
  const at::Tensor even = both.select(3, 0), odd = both.select(3, 1);
  const at::Tensor turned = at::stack({even * cosine - odd * sine, even * sine + odd * cosine}, 3).flatten(2);
  return 2 * pairs == x.size(2) ? turned : at::cat({turned, x.slice(2, 2 * pairs)}, 2);
}

}  // namespace topomask
