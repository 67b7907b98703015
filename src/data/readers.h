#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "core/internal_api.h"
#include "topomask/data/dataset.h"

namespace TOPOMASK_INTERNAL_API topomask {

// The kinds of open_dataset: what the files of one half hold, before validation images are taken out. `test` chooses
// the test files. Errors start with "open_dataset: FILE: ".

DatasetPtr open_idx(const DataOptions& options, bool test);
DatasetPtr open_cifar10(const DataOptions& options, bool test);
DatasetPtr open_cifar100(const DataOptions& options, bool test);
DatasetPtr open_image_folder(const DataOptions& options, bool test);
DatasetPtr open_synthetic(const DataOptions& options, bool test);

/// An IDX file of unsigned bytes with this many dimensions, plain or gzip: uint8 of the shape its header says.
at::Tensor read_idx(const std::filesystem::path& path, int64_t dimensions);

/// The most pixels of one image.
inline constexpr int64_t kLargestImagePixels = int64_t{1} << 28;
/// The most bytes of images kept in memory.
inline constexpr int64_t kLargestImageMemory = int64_t{1} << 36;

}  // namespace topomask
