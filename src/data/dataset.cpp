#include "topomask/data/dataset.h"

#include <ATen/ATen.h>

#include <cstring>

#include "core/checks.h"
#include "data/names.h"

namespace topomask {
namespace {

class MemoryDataset final : public ImageDataset {
 public:
  MemoryDataset(DatasetInfo info, at::Tensor images, at::Tensor labels)
      : ImageDataset(std::move(info)), images_(std::move(images)), labels_(std::move(labels)) {}

  int64_t read(int64_t index, uint8_t* image) const override {
    const int64_t bytes = images_.stride(0);
    std::memcpy(image, images_.const_data_ptr<uint8_t>() + index * bytes, static_cast<size_t>(bytes));
    return labels_.const_data_ptr<int64_t>()[index];
  }

 private:
  at::Tensor images_, labels_;
};

class Subset final : public ImageDataset {
 public:
  Subset(DatasetPtr whole, DatasetInfo info, std::vector<int64_t> indices)
      : ImageDataset(std::move(info)), whole_(std::move(whole)), indices_(std::move(indices)) {}

  int64_t read(int64_t index, uint8_t* image) const override {
    return whole_->read(indices_[static_cast<size_t>(index)], image);
  }

 private:
  DatasetPtr whole_;
  std::vector<int64_t> indices_;
};

}  // namespace

ImageBatch ImageDataset::batch(at::IntArrayRef indices) const {
  const auto [channels, height, width] = info_.image_shape;
  const auto count = static_cast<int64_t>(indices.size());
  ImageBatch batch{at::empty({count, channels, height, width}, at::kByte), at::empty({count}, at::kLong)};
  auto* image = batch.images.mutable_data_ptr<uint8_t>();
  auto* label = batch.labels.mutable_data_ptr<int64_t>();
  for (const int64_t index : indices) {
    TORCH_CHECK(index >= 0 && index < size(), "ImageDataset::batch: index must be in [0, ", size(), ") for ", name(),
                ", got ", index);
    *label++ = read(index, image);
    image += channels * height * width;
  }
  return batch;
}

DatasetPtr subset(DatasetPtr dataset, std::vector<int64_t> indices) {
  TORCH_CHECK(dataset != nullptr, "subset: dataset must be given, got none");
  for (const int64_t index : indices) {
    TORCH_CHECK(index >= 0 && index < dataset->size(), "subset: index must be in [0, ", dataset->size(), ") for ",
                dataset->name(), ", got ", index);
  }
  DatasetInfo info = dataset->info();
  info.size = static_cast<int64_t>(indices.size());
  return std::make_shared<Subset>(std::move(dataset), std::move(info), std::move(indices));
}

DatasetPtr memory_dataset(std::string name, at::Tensor images, at::Tensor labels, std::vector<std::string> classes) {
  TORCH_CHECK(images.defined() && images.scalar_type() == at::kByte && images.dim() == 4 && images.is_cpu(),
              "memory_dataset: images must be uint8 [N, C, H, W] on the CPU, got ", describe(images));
  TORCH_CHECK(labels.defined() && labels.scalar_type() == at::kLong && labels.dim() == 1 && labels.is_cpu() &&
                  labels.size(0) == images.size(0),
              "memory_dataset: labels must be int64 [", images.size(0), "], got ", describe(labels));
  if (labels.numel() > 0) {
    const auto low = labels.min().item<int64_t>(), high = labels.max().item<int64_t>();
    TORCH_CHECK(low >= 0 && high < static_cast<int64_t>(classes.size()), "memory_dataset: labels must be in [0, ",
                classes.size(), "), got ", low < 0 ? low : high);
  }
  DatasetInfo info{
      std::move(name), images.size(0), std::move(classes), {images.size(1), images.size(2), images.size(3)}};
  return std::make_shared<MemoryDataset>(std::move(info), images.contiguous(), labels.contiguous());
}

const char* to_string(Split split) {
  return kSplitNames[split].data();
}

}  // namespace topomask
