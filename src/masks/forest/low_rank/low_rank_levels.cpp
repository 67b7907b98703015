#include "masks/forest/low_rank/low_rank_levels.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "core/plain_ops.h"
#include "masks/forest/structure/near_pattern.h"
#include "masks/forest/structure/per_device.h"
#include "ops/low_rank_level/op.h"

namespace topomask {
namespace {

using at::Tensor;

constexpr int64_t kPieceNodes = 256;  // one warp takes a piece

}  // namespace

LowRankLevels::LowRankLevels(const Decomposition& decomposition, const std::vector<const Separable*>& functions,
                             const Tensor& near, const at::TensorOptions& options) {
  const at::Device device = options.device();
  std::map<int32_t, std::vector<size_t>> by_level;
  for (size_t c = 0; c < functions.size(); ++c) by_level[decomposition.components[c].level].push_back(c);
  for (const auto& [level, members] : by_level) {
    std::vector<int32_t> nodes;
    std::vector<int64_t> pieces, components{0};
    std::vector<double> send, receive;
    int64_t largest = 0;
    for (const size_t c : members) {
      const Component& component = decomposition.components[c];
      const int64_t rank = functions[c]->rank;
      largest = std::max(largest, rank);
      for (int64_t g = component.groups_begin; g < component.groups_begin + component.groups; ++g) {
        for (int64_t first = decomposition.groups[g], last = decomposition.groups[g + 1]; first < last;
             first += kPieceNodes) {
          const int64_t count = std::min(kPieceNodes, last - first);
          const auto before = static_cast<int64_t>(nodes.size()), factors = static_cast<int64_t>(send.size());
          pieces.insert(pieces.end(), {before, count, rank, g, factors});
          nodes.insert(nodes.end(), decomposition.order.begin() + first, decomposition.order.begin() + first + count);
          send.resize(factors + count * rank);
          receive.resize(factors + count * rank);
          const double* depth = decomposition.depth.data() + component.entry + first - component.first;
          for (int64_t i = 0; i < count; ++i) {
            functions[c]->evaluate(depth[i], send.data() + factors + i * rank, receive.data() + factors + i * rank);
          }
        }
      }
      components.push_back(static_cast<int64_t>(pieces.size()) / 5);
    }
    levels_.push_back({.nodes = on_device(nodes, device),
                       .pieces = on_device(pieces, device).view({-1, 5}),
                       .components = on_device(components, device),
                       .send = on_device(send, at::kCPU).to(options),
                       .receive = on_device(receive, at::kCPU).to(options),
                       .rank = largest});
  }
  const NearPattern pattern(decomposition);
  near_ = {pattern.pattern->to(device), near.index_select(0, pattern.index).to(options)};
}

Tensor LowRankLevels::products(const Tensor& x) const {
  const PlainOps plain;
  Tensor y = matmul(near_, x);
  for (const Level& level : levels_) {
    ops::low_rank_level::add_products(y, x, level.nodes, level.pieces, level.components, level.send, level.receive,
                                      level.rank);
  }
  return y;
}

}  // namespace topomask
