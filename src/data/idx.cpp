#include <ATen/ATen.h>

#include <array>

#include "data/readers.h"
#include "io/input_file.h"

namespace topomask {
namespace {

constexpr int kUnsignedByte = 0x08;

const std::vector<std::string> kFashionClasses{"t-shirt", "trouser", "pullover", "dress", "coat",
                                               "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};

std::filesystem::path find_file(const DataOptions& options, const std::string& name) {
  const std::filesystem::path plain = std::filesystem::path(options.path) / name, packed = plain.string() + ".gz";
  if (std::filesystem::exists(packed)) return packed;
  TORCH_CHECK(std::filesystem::exists(plain), "open_dataset: neither ", plain.string(), " nor ", packed.string(),
              " exists; data.path must be the folder of an IDX data set (Fashion-MNIST: the Debian package "
              "dataset-fashion-mnist puts it in /usr/share/datasets/fashion-mnist)");
  return plain;
}

}  // namespace

at::Tensor read_idx(const std::filesystem::path& path, int64_t dimensions) {
  io::ByteSource source({"open_dataset", path.string()});
  std::array<unsigned char, 4> word{};
  const auto read_word = [&](const char* what) {
    if (source.read(reinterpret_cast<char*>(word.data()), 4) != 4) {
      io::fail(source.origin(), "the file ends inside its header, before ", what);
    }
  };
  read_word("the magic number");
  if (word[0] != 0 || word[1] != 0 || word[2] != kUnsignedByte || word[3] != dimensions) {
    io::fail(source.origin(), "not an IDX file of unsigned bytes with ", dimensions, " dimensions: it starts with ",
             int{word[0]}, " ", int{word[1]}, " ", int{word[2]}, " ", int{word[3]}, ", expected 0 0 8 ", dimensions);
  }
  std::vector<int64_t> shape;
  int64_t bytes = 1, extent = 1;
  for (int64_t d = 0; d < dimensions; ++d) {
    read_word("its sizes");
    shape.push_back(int64_t{word[0]} << 24 | word[1] << 16 | word[2] << 8 | word[3]);
    // Also where another size is zero: torch does not take sizes whose product overflows.
    const int64_t size = std::max<int64_t>(1, shape.back());
    if (extent > kLargestImageMemory / size) {
      io::fail(source.origin(), "its header promises more than ", kLargestImageMemory, " bytes");
    }
    extent *= size;
    bytes *= shape.back();
  }
  if (bytes == 0 && shape[0] > 0) {
    io::fail(source.origin(), "its header promises ", shape[0], " images without a pixel: ", at::IntArrayRef(shape));
  }
  if (!source.can_hold(bytes)) {
    io::fail(source.origin(), "its header promises ", bytes, " bytes, more than the file can hold");
  }
  at::Tensor data = at::empty(shape, at::kByte);
  const auto got = static_cast<int64_t>(
      source.read(reinterpret_cast<char*>(data.mutable_data_ptr<uint8_t>()), static_cast<size_t>(bytes)));
  if (got != bytes) io::fail(source.origin(), "the data ends after ", got, " bytes, expected ", bytes);
  char extra = 0;
  if (source.read(&extra, 1) != 0)
    io::fail(source.origin(), "there are bytes after the ", bytes, " that its header promises");
  return data;
}

DatasetPtr open_idx(const DataOptions& options, bool test) {
  const std::string half = test ? "t10k" : "train";
  const auto images_path = find_file(options, half + "-images-idx3-ubyte");
  const auto labels_path = find_file(options, half + "-labels-idx1-ubyte");
  at::Tensor images = read_idx(images_path, 3);
  const at::Tensor labels = read_idx(labels_path, 1).to(at::kLong);
  TORCH_CHECK(labels.size(0) == images.size(0), "open_dataset: ", labels_path.string(), ": it has ", labels.size(0),
              " labels, but ", images_path.string(), " has ", images.size(0), " images");
  // The files say nothing of classes; every member of this family has ten but EMNIST.
  const int64_t classes = std::max<int64_t>(10, labels.numel() > 0 ? labels.max().item<int64_t>() + 1 : 0);
  std::vector<std::string> names;
  for (int64_t c = 0; c < classes; ++c) names.push_back(std::to_string(c));
  const auto folder = std::filesystem::path(options.path).lexically_normal();
  if (classes == 10 && folder.string().find("fashion") != std::string::npos) names = kFashionClasses;
  return memory_dataset("idx " + folder.string(), images.unsqueeze(1), labels, std::move(names));
}

}  // namespace topomask
