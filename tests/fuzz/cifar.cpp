#include <filesystem>

#include "data/readers.h"
#include "fuzz/harness.h"

namespace {

using namespace topomask;

/// A folder whose test files of both layouts are the input.
std::string folder_of(const std::string& file) {
  std::string folder = (std::filesystem::temp_directory_path() / "topomask-fuzz-XXXXXX").string();
  fuzz::require(::mkdtemp(folder.data()) != nullptr, "no temporary folder");
  for (const char* name : {"/test_batch.bin", "/test.bin"}) std::filesystem::create_symlink(file, folder + name);
  static std::string made;
  made = folder;
  std::atexit([] { std::filesystem::remove_all(made); });
  return folder;
}

void read_last_image(const DatasetPtr& dataset) {
  const auto [channels, height, width] = dataset->image_shape();
  std::string image(static_cast<size_t>(channels * height * width), '\0');
  const int64_t label = dataset->read(dataset->size() - 1, reinterpret_cast<uint8_t*>(image.data()));
  fuzz::require(label >= 0 && label < static_cast<int64_t>(dataset->classes().size()), "a label is out of range");
}

}  // namespace

FUZZ_TARGET(cifar) {
  static fuzz::MemoryFile file("cifar");
  static const std::string folder = folder_of(file.put(""));
  file.put(fuzz::text_of(data, size));
  const DataOptions options{.path = folder};
  fuzz::run(folder, [&] { read_last_image(open_cifar10(options, /*test=*/true)); });
  fuzz::run(folder, [&] { read_last_image(open_cifar100(options, /*test=*/true)); });
}
