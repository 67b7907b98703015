#pragma once

#include <ATen/ATen.h>

#include <string>

#include "nn/graph_models/sets.h"
#include "topomask/node_kernel.h"
#include "topomask/walks.h"

namespace topomask::testing {

/// Distances in hops by Floyd and Warshall; ∞ without a path.
inline at::Tensor floyd(const at::Tensor& adjacency) {
  at::Tensor distance = at::where(adjacency != 0, 1.0, INFINITY);
  distance.fill_diagonal_(0);
  for (int64_t k = 0; k < distance.size(0); ++k) {
    distance = at::minimum(distance, distance.select(1, k).unsqueeze(1) + distance.select(0, k).unsqueeze(0));
  }
  return distance;
}

/// Row `table[h, distance]`, 0 beyond the table: [H, N, N].
inline at::Tensor by_distance(const at::Tensor& table, const at::Tensor& distance) {
  const at::Tensor inside = distance < table.size(1);
  const at::Tensor place = at::where(inside, distance, 0).to(at::kLong).flatten();
  const at::Tensor values = table.index_select(1, place).view({table.size(0), distance.size(0), distance.size(1)});
  return values * inside;
}

/// What walks leave, [K, N, N], by hop: loads, or counts.
inline at::Tensor dense_hops(const WalkTable& table, bool loads) {
  const at::Tensor rows = at::repeat_interleave(at::arange(table.num_nodes()), table.offsets().diff());
  at::Tensor dense = at::zeros({table.max_hops() + 1, table.num_nodes(), table.num_nodes()}, at::kDouble);
  const at::Tensor values = loads ? table.loads().to(at::kDouble) : table.counts().to(at::kDouble);
  return dense.index_put({table.hops().to(at::kLong), rows, table.columns().to(at::kLong)}, values, true);
}

/// The mask of one layer over all nodes of a set, dense and differentiable in the layer's own parameter: [H or 1, N,
/// N]. `parameter` is undefined where there is none. Walks are sampled again as the model should.
inline at::Tensor dense_graph_mask(const GraphModel& model, const GraphSet& set, const at::Tensor& learned) {
  const GraphModelOptions& o = model.options();
  const at::Tensor parameter = o.positive_mask ? learned.exp() : learned;
  const at::Tensor a = (set.graph.matrix().dense() != 0).to(at::kDouble), degree = a.sum(1);
  const at::Tensor root = at::where(degree > 0, degree.clamp_min(1).rsqrt(), 0);
  const at::Tensor w = root.unsqueeze(1) * a * root;
  const at::Tensor member = at::repeat_interleave(at::arange(set.size()), set.offsets.diff());
  const at::Tensor together = (member.unsqueeze(1) == member).to(at::kDouble), eye = at::eye(a.size(0), at::kDouble);
  if (o.mask == "none") return together.unsqueeze(0);
  if (o.mask == "neighbours") return ((a + eye) != 0).to(at::kDouble).unsqueeze(0);
  if (o.mask == "series") {
    at::Tensor power = eye, sum = at::zeros({parameter.size(0), a.size(0), a.size(0)}, at::kDouble);
    for (int64_t k = 0; k < parameter.size(1); ++k, power = power.mm(w))
      sum = sum + parameter.select(1, k).view({-1, 1, 1}) * power;
    return sum;
  }
  if (o.mask == "diffusion") {
    const at::Tensor laplacian = at::diag((degree > 0).to(at::kDouble)) - w;
    return at::linalg_matrix_exp(-parameter.exp().view({-1, 1, 1}) * laplacian);
  }
  if (o.mask == "shortest_path") {
    const at::Tensor last = at::full({}, static_cast<double>(o.hops + 1), at::kDouble);
    return by_distance(parameter.exp(), at::minimum(floyd(a), last)) * together;
  }
  if (o.mask == "sequence") {
    const at::Tensor place = at::arange(a.size(0), at::kDouble);
    return by_distance(parameter, (place.unsqueeze(1) - place).abs()) * together;
  }
  if (o.mask == "forest") return by_distance(parameter, floyd(a));
  WalkOptions walks{
      .walkers = o.walkers, .halting_probability = o.halting_probability, .max_hops = o.hops, .seed = model.seed()};
  if (o.mask == "grf" || o.mask == "ad_hoc") {
    const bool weighted = o.mask == "grf";
    const at::Tensor hops = dense_hops(sample_walks(set.graph.normalised(o.edge_scale), walks), weighted) / o.walkers;
    const at::Tensor phi = at::einsum("hk,kij->hij", {parameter, hops});
    return at::matmul(phi, phi.mT());
  }
  walks.fixed_hops = o.hops;
  const at::Tensor visits = dense_hops(sample_walks(set.graph, walks), false).sum(0);
  if (o.mask == "frequency") return (visits / visits.diagonal().unsqueeze(1)).unsqueeze(0);
  const at::Tensor unit = visits / visits.norm(2, 1, true);
  return unit.mm(unit.t()).unsqueeze(0);
}

}  // namespace topomask::testing
