#include "masks/forest/structure/bins.h"

#include <algorithm>

namespace topomask {
namespace {

/// The distinct values among some depths, ascending, and where each stands. Reuses its workspace.
class Distinct {
 public:
  const std::vector<int32_t>& of(const double* depth, int64_t count) {
    values_.clear();
    const auto deepest = static_cast<int64_t>(*std::max_element(depth, depth + count));
    if (deepest <= 4 * count) {  // a row of marks is shorter than a sort
      rank_.assign(deepest + 1, 0);
      for (int64_t i = 0; i < count; ++i) rank_[static_cast<int64_t>(depth[i])] = 1;
      for (int64_t d = 0; d <= deepest; ++d) {
        if (rank_[d] == 0) continue;
        rank_[d] = static_cast<int32_t>(values_.size());
        values_.push_back(static_cast<int32_t>(d));
      }
      marked_ = true;
    } else {
      values_.assign(depth, depth + count);
      std::sort(values_.begin(), values_.end());
      values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
      marked_ = false;
    }
    return values_;
  }

  int32_t rank(double depth) const {
    const auto d = static_cast<int32_t>(depth);
    if (marked_) return rank_[d];
    return static_cast<int32_t>(std::lower_bound(values_.begin(), values_.end(), d) - values_.begin());
  }

 private:
  std::vector<int32_t> values_, rank_;
  bool marked_ = false;
};

}  // namespace

Bins make_bins(const Decomposition& decomposition) {
  Bins bins;
  bins.bin.resize(decomposition.depth.size());
  bins.group_first.resize(decomposition.groups.size());
  bins.first.push_back(0);
  bins.total_first.push_back(0);
  Distinct distinct;
  for (const Component& c : decomposition.components) {
    const int64_t first = bins.first.back();
    for (int64_t g = c.groups_begin; g < c.groups_begin + c.groups; ++g) {
      const int64_t begin = c.entry + decomposition.groups[g] - c.first;
      const int64_t end = c.entry + decomposition.groups[g + 1] - c.first;
      const auto base = static_cast<int32_t>(static_cast<int64_t>(bins.depth.size()) - first);
      bins.group_first[g] = base;
      const auto& depths = distinct.of(decomposition.depth.data() + begin, end - begin);
      bins.depth.insert(bins.depth.end(), depths.begin(), depths.end());
      for (int64_t i = begin; i < end; ++i) bins.bin[i] = base + distinct.rank(decomposition.depth[i]);
    }
    bins.first.push_back(static_cast<int64_t>(bins.depth.size()));
    bins.group_first[c.groups_begin + c.groups] = static_cast<int32_t>(bins.first.back() - first);

    const auto& depths = distinct.of(decomposition.depth.data() + c.entry, c.size);
    bins.total_depth.insert(bins.total_depth.end(), depths.begin(), depths.end());
    bins.total_first.push_back(static_cast<int64_t>(bins.total_depth.size()));
    for (int64_t b = first; b < bins.first.back(); ++b) bins.total.push_back(distinct.rank(bins.depth[b]));
  }
  return bins;
}

}  // namespace topomask
