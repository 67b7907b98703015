#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "walks/plan.h"
#include "walks/repelling.h"
#include "walks/step_kernel.h"

namespace topomask {

/// Walks of a few start nodes, hop by hop: the walkers alive at hop 0, then those at hop 1, … Order inside a hop:
/// starts as given, then walker numbers. Reused from batch to batch.
template <class T>
class WalkBatch {
 public:
  void clear();
  /// Room for `count` more walkers at the next hop; commit says how many came.
  Walkers<T> next_hop(int64_t count);
  void commit(int64_t count);

  int64_t hops() const { return static_cast<int64_t>(first_.size()) - 1; }  ///< hops with walkers, hop 0 included
  const int64_t* first() const { return first_.data(); }                    ///< hop t owns first[t] … first[t+1]-1
  int64_t visits() const { return first_.back(); }
  int64_t count(int64_t hop) const { return first_[hop + 1] - first_[hop]; }
  Walkers<T> at(int64_t hop) { return walkers_at(first_[hop]); }

 private:
  Walkers<T> walkers_at(int64_t place);

  std::vector<int64_t> first_ = {0};
  std::vector<uint32_t> start_, number_, position_;
  std::vector<T> load_;
};

/// Fills batches with sampled walks. One per thread.
template <class T>
class WalkSampler {
 public:
  WalkSampler(const WalkPlan& plan, const WalkSteps& steps);

  /// Walkers first … last-1 of the start nodes starts[0 … rows-1].
  void sample(const uint32_t* starts, int64_t rows, int64_t first, int64_t last, WalkBatch<T>& batch);

 private:
  void reserve(int64_t walkers);

  const WalkPlan& plan_;
  const WalkSteps& steps_;
  std::vector<uint32_t> words_[4], origin_[2], survivor_;
  std::optional<RepellingHop> repelling_hop_;
};

}  // namespace topomask
