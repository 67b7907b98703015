#include "topomask/data/options.h"

#include <limits>

#include "data/files.h"
#include "support/compare.h"
#include "topomask/data/dataset.h"
#include "topomask/data/image.h"
#include "topomask/data/loader.h"
#include "topomask/data/prepare.h"

using namespace topomask;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void expect_refused(const DataOptions& options, const std::string& text) {
  EXPECT_ERROR(options.check(), "open_dataset: data." + text);
  EXPECT_ERROR(open_dataset(options, Split::train), "open_dataset: data." + text);
}

}  // namespace

TEST(DataOptions, AreInRange) {
  DataOptions().check();
  expect_refused({.validation = -1}, "validation must not be negative, got -1");
  expect_refused({.limit = INT64_MAX}, "limit must be at most 4294967295, got");
  expect_refused({.image_size = -4}, "image_size must be from 1 to 4096, got -4");
  expect_refused({.synthetic_train = int64_t{1} << 32}, "synthetic_train must be at most 4294967295, got 4294967296");
  expect_refused({.workers = -1}, "workers must be from 0 to 1024, got -1");
  expect_refused({.prefetch = 1 << 20}, "prefetch must be from 0 to 65536, got 1048576");
  expect_refused({.crop_padding = -1}, "crop_padding must not be negative, got -1");
  expect_refused({.mixup = kNan}, "mixup must be >= 0, got nan");
  expect_refused({.cutmix = INFINITY}, "cutmix must be finite, got inf");
  expect_refused({.mean = {kNan}}, "mean must be finite, got nan");
  expect_refused({.standard_deviation = {0}}, "standard_deviation must be > 0, got 0");
  expect_refused({.standard_deviation = {INFINITY}}, "standard_deviation must be finite, got inf");
}

TEST(DataArguments, OfThePreparationAreFinite) {
  const ImageBatch batch{at::zeros({2, 1, 4, 4}, at::kByte), at::tensor({0, 3}, at::kLong)};
  const auto expect = [&](const AugmentOptions& options, const char* text) {
    EXPECT_ERROR(prepare(batch, options, at::kCPU, 0, 0), text);
  };
  expect({.mean = {kNan}, .standard_deviation = {1}}, "prepare: mean must be finite, got nan");
  expect({.mean = {0}, .standard_deviation = {INFINITY}}, "prepare: standard_deviation must be finite, got inf");
  expect({.mean = {0}, .standard_deviation = {1}, .mixup = INFINITY}, "prepare: mixup must be finite, got inf");
  expect({.mean = {0}, .standard_deviation = {1}, .classes = 2, .mixup = 1},
         "prepare: labels must be in [0, 2), the classes of the options, got 3");
  EXPECT_ERROR(prepare(batch, {.mean = {0}, .standard_deviation = {1}}, at::kCPU, 0, -1),
               "prepare: step must be >= 0, got -1");
  EXPECT_ERROR(
      prepare({batch.images, at::zeros({3}, at::kLong)}, {.mean = {0}, .standard_deviation = {1}}, at::kCPU, 0, 0),
      "prepare: labels must be int64 [2], got Long[3]");
}

TEST(DataArguments, OfDataSetsAndLoadersAreInRange) {
  EXPECT_ERROR(memory_dataset("x", {}, {}, {}),
               "memory_dataset: images must be uint8 [N, C, H, W] on the CPU, got undefined");
  EXPECT_ERROR(subset(nullptr, {}), "subset: dataset must be given, got none");
  const DatasetPtr some = open_dataset({.synthetic_train = 5}, Split::train);
  EXPECT_ERROR(Loader(some, {.batch_size = INT64_MAX, .drop_last = false}), "Loader: batch_size must be at most 2^32");
  EXPECT_ERROR(Loader(some, {.batch_size = 1, .prefetch = INT64_MAX}), "Loader: prefetch must be at most 65536");
}

TEST(DataArguments, OfImagesAreInRange) {
  EXPECT_ERROR(read_image("/nowhere", -1), "read_image: smallest_side must be >= 0, got -1");
  const at::Tensor image = at::zeros({3, 4, 4}, at::kByte);
  EXPECT_ERROR(resize_image(image, INT64_MAX), "resize_image: size must be at most 65536, got");
  EXPECT_ERROR(resize_image({}, 4), "resize_image: image must be [C, H, W] and not empty, got undefined");
  EXPECT_ERROR(colour_map({}), "colour_map: values must be [H, W], got undefined");
  EXPECT_ERROR(encode_png({}), "encode_png: image must be uint8 [3, H, W] and not empty, got undefined");
  EXPECT_ERROR(panels({image}, 1, INT64_MAX),
               "panels: the pixels, scale x scale x pixels of the images, must be at most");
  EXPECT_ERROR(panels({at::Tensor()}, 1, 1), "panels: images must be uint8 [3, H, W], got undefined");
}

TEST(DataFiles, AnIdxFileOfImagesWithoutPixelsIsRefused) {
  topomask::testing::TemporaryFolder folder;
  const auto header = [](std::initializer_list<int> sizes) {
    std::string bytes{0, 0, 8, static_cast<char>(sizes.size())};
    for (const int size : sizes) bytes += {0, 0, 0, static_cast<char>(size)};
    return bytes;
  };
  topomask::testing::write_file(folder / "train-images-idx3-ubyte", header({5, 0, 28}));
  topomask::testing::write_file(folder / "train-labels-idx1-ubyte", header({5}) + "\1\1\1\1\1");
  EXPECT_ERROR(open_dataset({.kind = "idx", .path = folder / ""}, Split::train),
               "train-images-idx3-ubyte: its header promises 5 images without a pixel: [5, 0, 28]");
}
