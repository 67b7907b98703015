#include "files.h"
#include "support/compare.h"
#include "topomask/data/image.h"
#include "topomask/data/loader.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

const std::filesystem::path kData = TOPOMASK_DATA_DIR;

}  // namespace

TEST(RealData, FashionMnistIsReadWhole) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs the Debian package dataset-fashion-mnist";
  const auto train = open_dataset({.kind = "idx", .path = folder}, Split::train);
  EXPECT_EQ(train->size(), 60000);
  EXPECT_EQ(train->image_shape(), (std::array<int64_t, 3>{1, 28, 28}));
  EXPECT_EQ(train->classes()[9], "ankle boot");
  EXPECT_EQ(train->batch({0}).labels.item<int64_t>(), 9);
  EXPECT_EQ(open_dataset({.kind = "idx", .path = folder}, Split::test)->size(), 10000);
}

TEST(RealDataSlow, ImagenetteIsDecodedByWorkers) {
  const auto archive = kData / "imagenette64/imagenette64.tar";
  if (!std::filesystem::exists(archive)) GTEST_SKIP() << "needs " << archive;
  const TemporaryFolder folder;
  ASSERT_EQ(std::system(("tar -xf '" + archive.string() + "' -C '" + folder.path().string() + "'").c_str()), 0);
  std::filesystem::path root = folder.path();
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    if (std::filesystem::is_directory(entry.path() / "train")) root = entry.path();
  }
  const DataOptions options{.kind = "image_folder", .path = root.string(), .image_size = 64};
  const auto train = open_dataset(options, Split::train);
  EXPECT_EQ(train->size(), 9469);
  EXPECT_EQ(train->classes().size(), 10);
  EXPECT_EQ(open_dataset(options, Split::test)->size(), 3925);
  Loader loader(train, {.batch_size = 256, .workers = 2, .drop_last = false});
  at::Tensor counts = at::zeros({10}, at::kLong);
  for (int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
    const ImageBatch batch = loader.next();
    EXPECT_EQ(batch.images.sizes().slice(1), at::IntArrayRef({3, 64, 64}));
    counts += at::bincount(batch.labels, {}, 10);
  }
  EXPECT_EQ(counts.sum().item<int64_t>(), 9469);
  EXPECT_GT(counts.min().item<int64_t>(), 800);
}

TEST(RealDataSlow, CifarIsReadFromItsBinaryFiles) {
  if (!std::filesystem::exists(kData / "cifar10/sprite_5.jpg")) GTEST_SKIP() << "needs " << kData / "cifar10";
  const TemporaryFolder folder;
  const std::string labels = read_file(kData / "cifar10/labels.u8");
  // 100 x 100 tiles of 32 x 32 pixels, the test images last.
  const at::Tensor sprite = read_image((kData / "cifar10/sprite_5.jpg").string());
  ASSERT_EQ(sprite.sizes(), at::IntArrayRef({3, 3200, 3200}));
  const at::Tensor tiles =
      sprite.reshape({3, 100, 32, 100, 32}).permute({1, 3, 0, 2, 4}).reshape({10000, 3072}).contiguous();
  std::string bytes;
  for (int64_t i = 0; i < 10000; ++i) {
    bytes += labels[static_cast<size_t>(50000 + i)];
    bytes.append(reinterpret_cast<const char*>(tiles.const_data_ptr<uint8_t>() + i * 3072), 3072);
  }
  write_file(folder / "test_batch.bin", bytes);
  const auto test = open_dataset({.kind = "cifar10", .path = folder / ""}, Split::test);
  EXPECT_EQ(test->size(), 10000);
  const ImageBatch batch = test->batch({0, 9999});
  EXPECT_TRUE(batch.images[1].flatten().equal(tiles[9999]));
  EXPECT_EQ(batch.labels[0].item<int64_t>(), labels[50000]);
}
