#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/internal_api.h"
#include "core/philox.h"
#include "topomask/walks.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Repelling walkers of one ensemble are in memory together, with all their visits: at most so many in expectation, at
/// about so many bytes each (measured) for every thread.
inline constexpr double kMostEnsembleVisits = 1 << 24, kEnsembleVisitBytes = 160;

/// Options that were found valid, as the samplers use them.
struct WalkPlan {
  /// Checks everything that does not need the graph; `op` names the function in errors.
  WalkPlan(const char* op, const WalkOptions& options);

  int64_t max_hops = 0;
  std::vector<uint32_t> halt_below;  ///< [max_hops]: a walk of t hops halts where its number is below halt_below[t]
  std::vector<double> survival;      ///< [max_hops]: 1 − h_t
  PhiloxKey key{};
  bool antithetic = false;
  bool repelling = false;
  int64_t group = 1;  ///< walkers in an independent group; an odd last antithetic walker is one of its own

  double visits_per_walker() const;  ///< in expectation, the start included
  int64_t largest_ensemble() const;  ///< repelling walkers that make no more than kMostEnsembleVisits
};

/// Where walks can go: the rows of W, without what a proposal never chooses.
struct WalkSteps {
  /// Checks the proposal against the graph and, unless it is uniform, builds alias tables: O(N + E).
  WalkSteps(const char* op, const Graph& graph, const WalkOptions& options);

  at::Tensor offsets;    ///< int64 [N+1]
  at::Tensor columns;    ///< int32 [E']
  at::Tensor factors;    ///< [E']: W for uniform proposals, where a hop multiplies the load by W·deg; else W/q
  at::Tensor threshold;  ///< uint32 as int32 [E']: below it a slot is kept; undefined where uniform
  at::Tensor alias;      ///< int32 [E']: where a slot leads otherwise, counted from the row's first entry
};

}  // namespace topomask
