#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "topomask/data/options.h"
#include "topomask/export.h"

namespace TOPOMASK_API topomask {

struct ImageBatch {
  at::Tensor images;  ///< uint8 [B, C, H, W]
  at::Tensor labels;  ///< int64 [B]
};

/// What describes a data set, apart from its images.
struct DatasetInfo {
  std::string name;
  int64_t size = 0;
  std::vector<std::string> classes;         ///< a label is an index into this list
  std::array<int64_t, 3> image_shape = {};  ///< C, H, W
};

/// Labelled images of one shape. Immutable: `batch` may be called from any number of threads.
class ImageDataset {
 public:
  virtual ~ImageDataset() = default;

  const DatasetInfo& info() const { return info_; }
  const std::string& name() const { return info_.name; }
  int64_t size() const { return info_.size; }
  const std::vector<std::string>& classes() const { return info_.classes; }
  const std::array<int64_t, 3>& image_shape() const { return info_.image_shape; }

  /// The images at these indices, in this order. An index outside [0, size) is an error; so is a file that cannot be
  /// read, which the error names.
  ImageBatch batch(at::IntArrayRef indices) const;

  /// Image `index`, which is in range, into `image`, C·H·W bytes; returns its label.
  virtual int64_t read(int64_t index, uint8_t* image) const = 0;

 protected:
  explicit ImageDataset(DatasetInfo info) : info_(std::move(info)) {}

 private:
  DatasetInfo info_;
};

using DatasetPtr = std::shared_ptr<const ImageDataset>;

enum class Split { train, validation, test };

const char* to_string(Split split);

/// Opens a data set by DataOptions::kind:
///
///   kind         | in the folder `path`                                                  | images
///   -------------|-----------------------------------------------------------------------|--------------------------
///   idx          | train- and t10k-images-idx3-ubyte, -labels-idx1-ubyte; plain or .gz    | [1, H, W], in memory
///   cifar10      | data_batch_1.bin … data_batch_5.bin, test_batch.bin                    | [3, 32, 32], in memory
///   cifar100     | train.bin, test.bin (fine labels)                                      | [3, 32, 32], in memory
///   image_folder | train/CLASS/*, val/CLASS/* (or test/CLASS/*), .jpg .jpeg .png          | [3, S, S], decoded at use
///   synthetic    | nothing                                                               | [1, S, S], made at use
///
/// Split::train is what the training files hold less the validation images, cut to `limit`; Split::validation are
/// `validation` of them drawn by split_seed; Split::test is the test files. Sizes are bounded by the size of the files
/// before memory is allocated; a file that is missing, cut short or not what it should be is an error that names it.
DatasetPtr open_dataset(const DataOptions& options, Split split);

/// The images at these places of another data set, as a data set.
DatasetPtr subset(DatasetPtr dataset, std::vector<int64_t> indices);

/// Images uint8 [N, C, H, W] and labels int64 [N] in memory, as a data set.
DatasetPtr memory_dataset(std::string name, at::Tensor images, at::Tensor labels, std::vector<std::string> classes);

}  // namespace topomask
