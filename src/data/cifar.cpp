#include <ATen/ATen.h>

#include <cstring>
#include <fstream>

#include "data/readers.h"
#include "io/input_file.h"

namespace topomask {
namespace {

constexpr int64_t kImageBytes = 3 * 32 * 32;

/// How a CIFAR set is laid out: records of `label_bytes` labels, the last of which counts, and an image.
struct Layout {
  std::string name;
  std::string inner_folder;  // what the published archive unpacks to
  std::vector<std::string> train_files, test_files;
  std::string classes_file;
  int64_t label_bytes;
  int64_t classes;
};

const Layout kCifar10{
    "cifar10",
    "cifar-10-batches-bin",
    {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
    {"test_batch.bin"},
    "batches.meta.txt",
    1,
    10};
const Layout kCifar100{"cifar100", "cifar-100-binary", {"train.bin"}, {"test.bin"}, "fine_label_names.txt", 2, 100};

void read_file(const std::filesystem::path& path, const Layout& layout, std::vector<at::Tensor>& images,
               std::vector<at::Tensor>& labels) {
  const int64_t record = layout.label_bytes + kImageBytes;
  io::InputFile file({"open_dataset", path.string()});
  const int64_t bytes = file.size().value_or(0);
  if (bytes == 0 || bytes % record != 0) {
    io::fail(file.origin(), "its size must be a multiple of ", record, " bytes, one record of ", layout.name, ", got ",
             bytes, "; the file may be cut short");
  }
  if (bytes > kLargestImageMemory) io::fail(file.origin(), "it has more than ", kLargestImageMemory, " bytes");
  const at::Tensor records = at::empty({bytes / record, record}, at::kByte);
  file.read_at(0, reinterpret_cast<char*>(records.mutable_data_ptr<uint8_t>()), static_cast<size_t>(bytes));
  labels.push_back(records.select(1, layout.label_bytes - 1).to(at::kLong));
  const auto largest = labels.back().max().item<int64_t>();
  if (largest >= layout.classes) {
    io::fail(file.origin(), "a label must be below ", layout.classes, ", got ", largest, "; is it ", layout.name, "?");
  }
  images.push_back(records.slice(1, layout.label_bytes).reshape({-1, 3, 32, 32}));
}

std::vector<std::string> class_names(const std::filesystem::path& path, int64_t classes) {
  std::vector<std::string> names;
  std::ifstream file(path);
  for (std::string line; static_cast<int64_t>(names.size()) < classes && std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (static_cast<int64_t>(names.size()) == classes) return names;
  names.clear();  // names are a courtesy: numbers do where the file is absent
  for (int64_t c = 0; c < classes; ++c) names.push_back(std::to_string(c));
  return names;
}

DatasetPtr open_layout(const Layout& layout, const DataOptions& options, bool test) {
  std::filesystem::path folder = options.path;
  if (std::filesystem::is_directory(folder / layout.inner_folder)) folder /= layout.inner_folder;
  std::vector<at::Tensor> images, labels;
  for (const std::string& name : test ? layout.test_files : layout.train_files) {
    TORCH_CHECK(std::filesystem::exists(folder / name), "open_dataset: ", (folder / name).string(),
                " does not exist; data.path must be the folder of the binary version of ", layout.name);
    read_file(folder / name, layout, images, labels);
  }
  return memory_dataset(layout.name, at::cat(images), at::cat(labels),
                        class_names(folder / layout.classes_file, layout.classes));
}

}  // namespace

DatasetPtr open_cifar10(const DataOptions& options, bool test) {
  return open_layout(kCifar10, options, test);
}

DatasetPtr open_cifar100(const DataOptions& options, bool test) {
  return open_layout(kCifar100, options, test);
}

}  // namespace topomask
