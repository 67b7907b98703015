#pragma once

#include <cstdint>
#include <string>

#include "topomask/data/dataset.h"
#include "topomask/data/prepare.h"
#include "topomask/export.h"
#include "topomask/nn/vit.h"
#include "topomask/tasks/task.h"

namespace TOPOMASK_API topomask {

/// The configuration with the model's image size, channels and classes taken from the data where they are 0; where they
/// are not, they must agree.
RunConfig complete_config(const RunConfig& config, const ImageDataset& dataset);

/// Mean cross-entropy, accuracy and confusion, in one pass over the data in batches of `batch_size`, without dropout.
Evaluation evaluate(ViT& model, const DatasetPtr& dataset, const AugmentOptions& augment, int64_t batch_size,
                    const std::string& precision = "float32");

}  // namespace topomask
