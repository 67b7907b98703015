#include "masks/forest/structure/forest_structure.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace topomask {
namespace {

/// `places` first … first+size−1 in preorder are a tree. Its block of distances is filled from parents to children.
void measure_tree(const RootedOrder& rooted, const double* length, int64_t first, int64_t size, const int64_t* offset,
                  const std::vector<int32_t>& rank, double* distance) {
  for (int64_t p = first; p < first + size; ++p) {
    const int32_t v = rooted.preorder[p];
    double* own = distance + offset[v];
    own[rank[v]] = 0;
    if (p == first) continue;
    const double* parent = distance + offset[rooted.preorder[rooted.preorder_parent[p]]];
    for (int64_t q = first; q < p; ++q) {
      const int32_t u = rooted.preorder[q];
      own[rank[u]] = distance[offset[u] + rank[v]] = parent[rank[u]] + length[v];
    }
  }
}

TreePairs make_pairs(const RootedOrder& rooted, const at::Tensor& lengths) {
  const int64_t nodes = rooted.size();
  std::vector<int32_t> rank(nodes), members;  // rank: the place of a node among the nodes of its tree
  at::Tensor offsets = at::zeros({nodes + 1}, at::kLong);
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  for (int64_t p = 0; p < nodes; ++p) {
    const bool root = rooted.preorder_parent[p] < 0;
    offset[rooted.preorder[p] + 1] = root ? rooted.subtree[p] : offset[rooted.preorder[rooted.preorder_parent[p]] + 1];
  }
  for (int64_t v = 0; v < nodes; ++v) offset[v + 1] += offset[v];
  at::Tensor columns = at::empty({offset[nodes]}, at::kInt), distances = at::empty({offset[nodes]}, at::kDouble);
  for (int64_t first = 0; first < nodes; first += rooted.subtree[first]) {
    const int64_t size = rooted.subtree[first];
    members.assign(rooted.preorder.begin() + first, rooted.preorder.begin() + first + size);
    std::sort(members.begin(), members.end());
    for (int64_t i = 0; i < size; ++i) {
      rank[members[i]] = static_cast<int32_t>(i);
      std::copy(members.begin(), members.end(), columns.mutable_data_ptr<int32_t>() + offset[members[i]]);
    }
    measure_tree(rooted, lengths.const_data_ptr<double>(), first, size, offset, rank,
                 distances.mutable_data_ptr<double>());
  }
  return {std::make_shared<SparsePattern>(nodes, nodes, offsets, columns), distances};
}

}  // namespace

at::Tensor ForestStructure::lengths() const {
  return weights_.detach().to(at::kDouble).contiguous();
}

const Decomposition& ForestStructure::decomposition() const {
  const std::lock_guard lock(mutex_);
  if (!decomposition_) decomposition_ = decompose(*rooted_, lengths().const_data_ptr<double>());
  return *decomposition_;
}

const Bins& ForestStructure::bins() const {
  const Decomposition& made = decomposition();
  const std::lock_guard lock(mutex_);
  if (!bins_) bins_ = make_bins(made);
  return *bins_;
}

const TreePairs& ForestStructure::pairs() const {
  const std::lock_guard lock(mutex_);
  const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
  if (!pairs_) pairs_ = make_pairs(*rooted_, lengths());
  return *pairs_;
}

double ForestStructure::pair_count() const {
  double count = 0;
  for (int64_t p = 0; p < rooted_->size(); p += rooted_->subtree[p]) {
    count += static_cast<double>(rooted_->subtree[p]) * static_cast<double>(rooted_->subtree[p]);
  }
  return count;
}

}  // namespace topomask
