#pragma once

#include <map>
#include <utility>

#include "topomask/export.h"
#include "topomask/nn/options.h"
#include "topomask/walks.h"

namespace TOPOMASK_API topomask {

/// The walks of a model, frozen: a table for each layer and head, or shared between layers or heads where the options
/// say so. Tables of one model are disjoint ranges of the walkers of one seed, hence independent.
class WalkPool {
 public:
  WalkPool(const ViTOptions& options, uint64_t seed) : options_(options), seed_(seed) {}

  const WalkTable& table(int64_t layer, int64_t head);

 private:
  ViTOptions options_;
  uint64_t seed_;
  std::map<std::pair<int64_t, int64_t>, WalkTable> tables_;
};

}  // namespace topomask
