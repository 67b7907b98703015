#pragma once

#include <cstdint>
#include <vector>

#include "walks/plan.h"
#include "walks/step_kernel.h"

namespace topomask {

/// The hop of walkers that repel each other: those of one ensemble that stand on one node leave it in blocks of its
/// degree, in the order of their numbers, to distinct neighbours inside a block.
class RepellingHop {
 public:
  RepellingHop(const WalkPlan& plan, const WalkSteps& steps);

  /// As walk_hop, `hop` → `hop` + 1. Ensembles are counted from walker `first`.
  template <class T>
  int64_t operator()(const WalkHopArgs<T>& args, int64_t hop, int64_t first);

 private:
  /// The neighbours of a row that walkers by_node_[begin … end-1] take.
  void leave(int64_t row, int64_t degree, uint32_t start, int64_t hop, int64_t begin, int64_t end);

  PhiloxKey key_;
  int64_t ensemble_;
  struct Walker {
    uint32_t node, number;
    int64_t place;  ///< among the survivors
  };
  std::vector<Walker> by_node_;      ///< one ensemble
  std::vector<int64_t> entry_;       ///< per survivor: the entry of W it takes, −1 at a dead end
  std::vector<uint32_t> neighbour_;  ///< 0 … max degree − 1, between blocks
  std::vector<uint32_t> swapped_;
};

}  // namespace topomask
