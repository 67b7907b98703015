#pragma once

#include "topomask/mask.h"
#include "topomask/nn/graph_options.h"

namespace topomask {

/// Dropout of attention under a mask: entries of M become 0 with a probability, for each head on its own, and the
/// others are scaled to keep the mean. Rows are normalised after that, so their weights still sum to 1, and attention
/// keeps its sparse routes. A row that loses all its entries gives zeros.
class MaskDropout {
 public:
  MaskDropout(const GraphModelOptions& options, int64_t heads)
      : probability_(options.attention_dropout), max_entries_(options.max_entries), heads_(heads) {}

  /// The mask as it is, unless `training`. Refuses a mask of more than max_entries entries, or that has no sparse form.
  MaskPtr operator()(const MaskPtr& mask, bool training) const;

 private:
  double probability_;
  int64_t max_entries_, heads_;
};

}  // namespace topomask
