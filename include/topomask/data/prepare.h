#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "topomask/data/dataset.h"
#include "topomask/export.h"

namespace TOPOMASK_API topomask {

struct AugmentOptions {
  std::vector<double> mean;                ///< one for each channel, of values in [0, 1]
  std::vector<double> standard_deviation;  ///< likewise, positive
  int64_t classes = 0;
  double mixup =
      0;  ///< a of Beta(a, a), the weight of an image against another of its batch (Zhang et al. 2018); 0: off
  double cutmix =
      0;  ///< the same for the area of a rectangle taken from another (Yun et al. 2019); with both, a coin decides
};

/// The options of a training run: its normalisation, mix-up and cut-mix. For evaluation set mixup = cutmix = 0, or take
/// `without_mixing`.
AugmentOptions augment_options(const DataOptions& options, const ImageDataset& dataset);
AugmentOptions without_mixing(AugmentOptions options);

struct TrainBatch {
  at::Tensor images;   ///< float32 [B, C, H, W], normalised
  at::Tensor labels;   ///< int64 [B]
  at::Tensor targets;  ///< float32 [B, classes], rows sum to 1; undefined where nothing was mixed
};

/// From bytes to what a model takes, by torch operations on `device`: conversion, normalisation, mix-up or cut-mix. One
/// weight and one permutation for a batch, a pure function of (seed, step).
TrainBatch prepare(const ImageBatch& batch, const AugmentOptions& options, at::Device device, uint64_t seed,
                   int64_t step);

}  // namespace topomask
