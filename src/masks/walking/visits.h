#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
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

/// What is in memory at once: `parts` parts of `rows` rows each, and of those rows' walkers `walkers`. About 2²¹ visits
/// (some sixty megabytes) in expectation, however many walkers there are and however long they walk; more only where a
/// single row's walkers that must be sampled together, an ensemble of repelling ones, make more. It does not depend on
/// the number of threads, so that sums have one order.
struct VisitBatches {
  VisitBatches(const WalkPlan& plan, int64_t nodes, int64_t all_walkers);

  int64_t rows, parts, walkers;
};

/// Sends out walkers first … last-1 of every node and calls f(parts) for one group of parts after the other, in the
/// order of nodes, and for some of the walkers after the others inside a group: f adds up what it is given.
template <class T, class F>
void for_visits(const WalkPlan& plan, const WalkSteps& steps, int64_t first, int64_t last, const F& f) {
  const int64_t nodes = steps.offsets.size(0) - 1;
  const VisitBatches at_once(plan, nodes, last - first);
  const int64_t parts = (nodes + at_once.rows - 1) / at_once.rows;
  std::vector<Visits<T>> visits;
  for (int64_t group = 0; group < parts; group += at_once.parts) {
    const int64_t count = std::min(at_once.parts, parts - group);
    visits.resize(count);
    for (int64_t walker = first; walker < last; walker += at_once.walkers) {
      const int64_t end_walker = std::min(last, walker + at_once.walkers);
      at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
        WalkSampler<T> sampler(plan, steps);
        WalkBatch<T> batch;
        std::vector<uint32_t> starts;
        for (int64_t p = begin; p < end; ++p) {
          starts.clear();
          for (int64_t i = (group + p) * at_once.rows; i < std::min(nodes, (group + p + 1) * at_once.rows); ++i) {
            starts.push_back(static_cast<uint32_t>(i));
          }
          sampler.sample(starts.data(), static_cast<int64_t>(starts.size()), walker, end_walker, batch);
          visits[p].take(batch, end_walker - walker);
        }
      });
      f(visits);
    }
  }
}

}  // namespace topomask
