#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <optional>

#include "core/internal_api.h"
#include "masks/forest/structure/bins.h"
#include "masks/forest/structure/decomposition.h"
#include "masks/forest/structure/rooted_order.h"
#include "topomask/sparse.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// All pairs of nodes inside trees, with their distances: the sparse form of every mask over a forest of small trees.
struct TreePairs {
  PatternPtr pattern;
  at::Tensor distances;  ///< float64 [entries]
};

/// What masks derive from a forest, each made once, on first use, and shared by all of them.
class ForestStructure {
 public:
  ForestStructure(std::shared_ptr<const RootedOrder> rooted, at::Tensor weights)
      : rooted_(std::move(rooted)), weights_(std::move(weights)) {}

  const std::shared_ptr<const RootedOrder>& rooted() const { return rooted_; }
  const Decomposition& decomposition() const;
  const Bins& bins() const;  ///< lengths must be integers ≥ 0
  const TreePairs& pairs() const;
  double pair_count() const;  ///< Σ over trees of nodes², not built

 private:
  at::Tensor lengths() const;  ///< the weights, plain float64

  std::shared_ptr<const RootedOrder> rooted_;
  at::Tensor weights_;
  mutable std::mutex mutex_;
  mutable std::optional<Decomposition> decomposition_;
  mutable std::optional<Bins> bins_;
  mutable std::optional<TreePairs> pairs_;
};

}  // namespace topomask
