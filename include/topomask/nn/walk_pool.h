#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "topomask/export.h"
#include "topomask/nn/options.h"
#include "topomask/walks.h"

namespace TOPOMASK_API topomask {

/// The walks of a model, frozen: a table for each layer and head, or shared between layers or heads where the options
/// say so. Tables of one model are disjoint ranges of the walkers of one seed, hence independent.
class WalkPool {
 public:
  /// On the grid with the sides `axes`; empty: on the patches of an image.
  WalkPool(const ViTOptions& options, uint64_t seed, std::vector<int64_t> axes = {})
      : options_(options), seed_(seed), axes_(std::move(axes)) {
    if (axes_.empty()) axes_ = {options.grid(), options.grid()};
  }

  const WalkTable& table(int64_t layer, int64_t head);

 private:
  ViTOptions options_;
  uint64_t seed_;
  std::vector<int64_t> axes_;
  std::map<std::pair<int64_t, int64_t>, WalkTable> tables_;
};

}  // namespace topomask
