#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "topomask/walks.h"
#include "walks/plan.h"

namespace topomask {

/// Walks on a graph that is on a GPU, through the operators that sample there; the same walks as on the CPU.
class CudaWalks {
 public:
  /// Steps as WalkSteps has them: alias tables are made on the CPU.
  CudaWalks(const char* op, const Graph& graph, const WalkOptions& options);

  const WalkPlan& plan() const { return plan_; }
  WalkTable::Arrays table() const;

  /// The visits of the walks from nodes first … first+count−1, row by row and by walker: the start of each walk and one
  /// for every hop. offsets int64 [count+1], columns int32, hops int64 and loads [V]. V is read back from the device.
  /// Only `walkers` walkers of each node after the first `skipped` are taken; repelling ones must be taken in whole
  /// ensembles.
  struct Visits {
    at::Tensor offsets, columns, hops, loads;
  };
  Visits visits(int64_t first, int64_t count, int64_t skipped, int64_t walkers) const;
  Visits visits(int64_t first, int64_t count) const { return visits(first, count, 0, options_.walkers); }

 private:
  void add_products(WalkTable::Arrays& table) const;

  int64_t nodes_;
  WalkOptions options_;
  WalkPlan plan_;
  at::Tensor offsets_, columns_, factors_, halt_below_, scale_;
  std::optional<at::Tensor> threshold_, alias_;
};

}  // namespace topomask
