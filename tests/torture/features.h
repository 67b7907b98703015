#pragma once

#include <functional>

#include "topomask/feature_map.h"
#include "torture/draw.h"

namespace topomask::torture {

/// A feature map of the library and its formula in plain tensor operations.
struct DrawnFeatures {
  FeatureMap library = FeatureMap::identity();
  using Map = std::function<at::Tensor(const at::Tensor&)>;
  Map queries, keys;
  /// What rounding errors of φ(x) are judged against, from x and φ(x): |φ| where nothing cancels.
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& phi)> magnitude;
  bool exponential = false;  ///< overflows for large inputs
  std::string what;
};

DrawnFeatures draw_features(Draw& draw, int64_t head_dim);

}  // namespace topomask::torture
