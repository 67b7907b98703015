#pragma once

#include <ATen/Parallel.h>

#include <cstdint>
#include <vector>

#include "walks/batch.h"
#include "walks/plan.h"

namespace topomask {

/// Where the walkers of some rows went: for each visit its row, node, hop and load; row by row inside a hop.
template <class T>
struct Visits {
  std::vector<uint32_t> start, node;
  std::vector<int16_t> hop;
  std::vector<T> load;
  std::vector<T> weight[2], dots[2];  ///< room for what is made of them

  int64_t size() const { return static_cast<int64_t>(start.size()); }
  void take(WalkBatch<T>& batch, int64_t walkers);
};

/// Rows a part holds, and parts that are in memory at once. Fixed, so that sums have one order for any number of
/// threads.
inline constexpr int64_t kPartRows = 128, kPartsAtOnce = 64;

/// Sends out walkers first … last-1 of every node and calls f(parts) for one group of parts after the other, parts of
/// kPartRows rows each in the order of nodes.
template <class T, class F>
void for_visits(const WalkPlan& plan, const WalkSteps& steps, int64_t first, int64_t last, const F& f) {
  const int64_t nodes = steps.offsets.size(0) - 1, parts = (nodes + kPartRows - 1) / kPartRows;
  std::vector<Visits<T>> visits(std::min(parts, kPartsAtOnce));
  for (int64_t group = 0; group < parts; group += kPartsAtOnce) {
    const int64_t count = std::min(kPartsAtOnce, parts - group);
    at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      WalkSampler<T> sampler(plan, steps);
      WalkBatch<T> batch;
      std::vector<uint32_t> starts;
      for (int64_t p = begin; p < end; ++p) {
        starts.clear();
        for (int64_t i = (group + p) * kPartRows; i < std::min(nodes, (group + p + 1) * kPartRows); ++i) {
          starts.push_back(static_cast<uint32_t>(i));
        }
        sampler.sample(starts.data(), static_cast<int64_t>(starts.size()), first, last, batch);
        visits[p].take(batch, last - first);
      }
    });
    visits.resize(count);
    f(visits);
  }
}

}  // namespace topomask
