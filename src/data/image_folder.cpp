#include <algorithm>
#include <cstring>

#include "data/readers.h"
#include "topomask/data/image.h"

namespace topomask {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

/// Names inside a folder, in an order that does not depend on the file system.
std::vector<fs::path> sorted_entries(const fs::path& folder, bool (*wanted)(const fs::path&)) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (wanted(entry.path())) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<fs::path> class_folders(const fs::path& half) {
  return sorted_entries(half, [](const fs::path& path) { return fs::is_directory(path); });
}

struct Item {
  std::string path;
  int64_t label;
};

class ImageFolder final : public ImageDataset {
 public:
  ImageFolder(DatasetInfo info, std::vector<Item> items) : ImageDataset(std::move(info)), items_(std::move(items)) {}

  int64_t read(int64_t index, uint8_t* image) const override {
    const Item& item = items_[static_cast<size_t>(index)];
    const int64_t size = image_shape()[1];
    const at::Tensor resized = resize_image(read_image(item.path, size), size).contiguous();
    std::memcpy(image, resized.const_data_ptr<uint8_t>(), static_cast<size_t>(resized.numel()));
    return item.label;
  }

 private:
  std::vector<Item> items_;
};

fs::path test_folder(const fs::path& root) {
  for (const char* name : {"val", "test", "validation"}) {
    if (fs::is_directory(root / name)) return root / name;
  }
  return root / "val";
}

}  // namespace

DatasetPtr open_image_folder(const DataOptions& options, bool test) {
  const fs::path root = options.path, train = root / "train", half = test ? test_folder(root) : train;
  for (const fs::path& folder : {train, half}) {
    TORCH_CHECK(fs::is_directory(folder), "open_dataset: ", folder.string(),
                " is not a folder; image_folder wants train/CLASS/*.jpg and val/CLASS/*.jpg (or .png) in data.path");
  }
  DatasetInfo info{.name = "image_folder " + root.lexically_normal().string(),
                   .image_shape = {3, options.image_size, options.image_size}};
  for (const fs::path& folder : class_folders(train)) info.classes.push_back(folder.filename().string());
  std::vector<Item> items;
  for (const fs::path& folder : class_folders(half)) {
    const auto place = std::find(info.classes.begin(), info.classes.end(), folder.filename().string());
    TORCH_CHECK(place != info.classes.end(), "open_dataset: ", folder.string(), ": there is no such class in ",
                train.string());
    for (const fs::path& path : sorted_entries(folder, is_image)) {
      items.push_back({path.string(), static_cast<int64_t>(place - info.classes.begin())});
    }
  }
  TORCH_CHECK(!items.empty(), "open_dataset: ", half.string(), ": no .jpg, .jpeg or .png file in its class folders");
  info.size = static_cast<int64_t>(items.size());
  return std::make_shared<ImageFolder>(std::move(info), std::move(items));
}

}  // namespace topomask
