#include "sparse/hops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace topomask {
namespace {

struct Csr {
  explicit Csr(const SparsePattern& pattern)
      : offset(pattern.offsets().const_data_ptr<int64_t>()), column(pattern.columns().const_data_ptr<int32_t>()) {}
  const int64_t* offset;
  const int32_t* column;
};

/// Breadth-first balls, reusing its workspace from node to node.
class Ball {
 public:
  explicit Ball(const SparsePattern& edges) : csr_(edges), seen_(edges.rows(), -1) {}

  /// The nodes within `hops` of `start`, unordered; stops early at `limit` nodes.
  const std::vector<int32_t>& around(int64_t start, int64_t hops, int64_t limit) {
    nodes_.assign(1, static_cast<int32_t>(start));
    seen_[start] = static_cast<int32_t>(start);
    size_t frontier = 0;
    for (int64_t hop = 0; hop < hops; ++hop) {
      const size_t end = nodes_.size();
      for (; frontier < end; ++frontier) {
        const int32_t u = nodes_[frontier];
        for (int64_t e = csr_.offset[u]; e < csr_.offset[u + 1]; ++e) {
          const int32_t v = csr_.column[e];
          if (seen_[v] == static_cast<int32_t>(start)) continue;
          seen_[v] = static_cast<int32_t>(start);
          nodes_.push_back(v);
          if (static_cast<int64_t>(nodes_.size()) >= limit) return nodes_;
        }
      }
    }
    return nodes_;
  }

 private:
  Csr csr_;
  std::vector<int32_t> seen_;  // the last start that reached a node
  std::vector<int32_t> nodes_;
};

double estimate(const SparsePattern& edges, int64_t terms, int64_t limit) {
  const int64_t nodes = edges.rows();
  if (nodes == 0 || terms == 0) return 0;
  constexpr int64_t kSamples = 32;
  const int64_t samples = std::min(nodes, kSamples);
  const int64_t ball_limit = limit / nodes + 1;  // as many balls of this size have more entries than the limit
  Ball ball(edges);
  double total = 0;
  for (int64_t s = 0; s < samples; ++s) {
    // Evenly spread nodes, off the border of a grid.
    const int64_t node = (2 * s + 1) * nodes / (2 * samples);
    total += static_cast<double>(ball.around(node, terms - 1, ball_limit).size());
  }
  return total / static_cast<double>(samples) * static_cast<double>(nodes);
}

PatternPtr make_hops(const SparsePattern& edges, int64_t terms) {
  const int64_t nodes = edges.rows(), hops = std::max<int64_t>(terms - 1, 0);
  at::Tensor offsets = at::zeros({nodes + 1}, at::kLong);
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  at::parallel_for(0, terms > 0 ? nodes : 0, 256, [&](int64_t begin, int64_t end) {
    Ball ball(edges);
    for (int64_t i = begin; i < end; ++i) offset[i + 1] = static_cast<int64_t>(ball.around(i, hops, nodes).size());
  });
  for (int64_t i = 0; i < nodes; ++i) offset[i + 1] += offset[i];

  at::Tensor columns = at::empty({offset[nodes]}, at::kInt);
  int32_t* column = columns.mutable_data_ptr<int32_t>();
  at::parallel_for(0, terms > 0 ? nodes : 0, 256, [&](int64_t begin, int64_t end) {
    Ball ball(edges);
    for (int64_t i = begin; i < end; ++i) {
      const auto& reached = ball.around(i, hops, nodes);
      std::copy(reached.begin(), reached.end(), column + offset[i]);
      std::sort(column + offset[i], column + offset[i + 1]);
    }
  });
  return std::make_shared<SparsePattern>(nodes, nodes, offsets, columns);
}

}  // namespace

/// What is known of the neighbourhoods of one pattern.
class HopCache {
 public:
  static HopCache& of(const SparsePattern& edges) { return *edges.hops_; }

  PatternPtr pattern(const SparsePattern& edges, int64_t terms) {
    {
      const std::lock_guard lock(mutex_);
      if (const PatternPtr known = known_of(terms).pattern) return known;
    }
    const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
    // Outside the lock: it takes long and all threads.
    const PatternPtr made = make_hops(*edges.to(at::kCPU), terms)->to(edges.device());
    const std::lock_guard lock(mutex_);
    PatternPtr& kept = known_of(terms).pattern;
    if (!kept) kept = made;
    return kept;
  }

  double entries(const SparsePattern& edges, int64_t terms, int64_t limit) {
    const std::lock_guard lock(mutex_);
    Known& known = known_of(terms);
    if (known.limit != limit) {
      known.estimate = estimate(*edges.to(at::kCPU), terms, limit);
      known.limit = limit;
    }
    return known.estimate;
  }

 private:
  struct Known {
    int64_t terms = 0;
    int64_t limit = -1;  ///< of the estimate
    double estimate = 0;
    PatternPtr pattern;  ///< null until it is asked for
  };

  Known& known_of(int64_t terms) {
    for (Known& known : known_) {
      if (known.terms == terms) return known;
    }
    return known_.emplace_back(Known{.terms = terms});
  }

  std::mutex mutex_;
  std::vector<Known> known_;
};

std::shared_ptr<HopCache> make_hop_cache() {
  return std::make_shared<HopCache>();
}

PatternPtr hop_pattern(const SparsePattern& edges, int64_t terms) {
  TORCH_INTERNAL_ASSERT(edges.rows() == edges.cols() && terms >= 1);
  return HopCache::of(edges).pattern(edges, terms);
}

double estimate_hop_entries(const SparsePattern& edges, int64_t terms, int64_t limit) {
  return HopCache::of(edges).entries(edges, terms, limit);
}

}  // namespace topomask
