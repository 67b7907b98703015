#include "masks/forest/trees.h"

#include <ATen/CPUGeneratorImpl.h>

#include <random>

namespace topomask::testing {

at::Tensor path_parent(int64_t nodes) {
  return at::arange(nodes, at::kLong) - 1;
}

at::Tensor star_parent(int64_t nodes) {
  at::Tensor parent = at::zeros({nodes}, at::kLong);
  if (nodes > 0) parent[0] = -1;
  return parent;
}

at::Tensor random_parent(int64_t nodes, uint64_t seed) {
  std::mt19937_64 random(seed);
  at::Tensor parent = at::full({nodes}, -1, at::kLong);
  for (int64_t v = 1; v < nodes; ++v) {
    parent.mutable_data_ptr<int64_t>()[v] = static_cast<int64_t>(random() % static_cast<uint64_t>(v));
  }
  return parent;
}

at::Tensor caterpillar_parent(int64_t spine) {
  return at::cat({path_parent(spine), at::arange(spine, at::kLong)});
}

at::Tensor joined(const std::vector<at::Tensor>& parents) {
  std::vector<at::Tensor> shifted;
  int64_t nodes = 0;
  for (const at::Tensor& parent : parents) {
    shifted.push_back(at::where(parent < 0, parent, parent + nodes));
    nodes += parent.size(0);
  }
  return at::cat(shifted);
}

at::Tensor shuffled(const at::Tensor& parent, uint64_t seed) {
  const at::Tensor name = at::randperm(parent.size(0), at::detail::createCPUGenerator(seed), at::dtype(at::kLong));
  at::Tensor result = at::empty_like(parent);
  result.index_copy_(0, name, at::where(parent < 0, parent, name.index_select(0, parent.clamp_min(0))));
  return result;
}

std::vector<NamedParent> parents() {
  const at::Tensor single = path_parent(1);
  return {{"single", single},
          {"two", path_parent(2)},
          {"path63", path_parent(63)},
          {"star23", star_parent(23)},
          {"caterpillar", shuffled(caterpillar_parent(17), 1)},
          {"random71", shuffled(random_parent(71, 2), 3)},
          {"singles", joined({single, single, single})},
          {"forest", shuffled(joined({single, random_parent(23, 4), path_parent(13), single, star_parent(11),
                                      path_parent(2), caterpillar_parent(7)}),
                              5)}};
}

AllPairs all_pairs(const at::Tensor& parent, const at::Tensor& weights) {
  const int64_t nodes = parent.size(0);
  // above[i, v]: v is i or an ancestor of it, so the edge above v is on the way to the root. Roots have no edge.
  at::Tensor above = at::eye(nodes, at::kDouble), root = at::arange(nodes, at::kLong);
  for (int64_t i = 0; i < nodes; ++i) {
    for (int64_t v = i; parent[v].item<int64_t>() >= 0;) {
      v = parent[v].item<int64_t>();
      above[i][v] = 1;
      root[i] = v;
    }
  }
  const at::Tensor edge = at::where(parent < 0, 0.0, weights.to(at::kDouble));
  const at::Tensor on_path = (above.unsqueeze(0) - above.unsqueeze(1)).abs();
  return {at::matmul(on_path, edge), (root.unsqueeze(0) == root.unsqueeze(1)).to(at::kDouble)};
}

at::Tensor real_weights(int64_t nodes, uint64_t seed) {
  return at::rand({nodes}, at::detail::createCPUGenerator(seed), at::dtype(at::kDouble)) * 1.8 + 0.2;
}

at::Tensor integer_weights(int64_t nodes, int64_t most, uint64_t seed) {
  return at::randint(0, most + 1, {nodes}, at::detail::createCPUGenerator(seed), at::dtype(at::kDouble));
}

}  // namespace topomask::testing
