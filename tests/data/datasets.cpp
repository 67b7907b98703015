#include <set>

#include "data/names.h"
#include "data/readers.h"
#include "files.h"
#include "support/compare.h"
#include "topomask/data/image.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

/// 5 training and 2 test images of 2 x 3 pixels.
void write_small_idx(const std::filesystem::path& folder, bool packed) {
  const auto put = [&](const std::string& name, const std::string& bytes) {
    write_file(folder / (name + (packed ? ".gz" : "")), packed ? gzip(bytes) : bytes);
  };
  put("train-images-idx3-ubyte", idx({5, 2, 3}, counting(30)));
  put("train-labels-idx1-ubyte", idx({5}, counting(5)));
  put("t10k-images-idx3-ubyte", idx({2, 2, 3}, counting(12, 100)));
  put("t10k-labels-idx1-ubyte", idx({2}, counting(2, 8)));
}

std::vector<int64_t> all(const ImageDataset& dataset) {
  std::vector<int64_t> places(static_cast<size_t>(dataset.size()));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

}  // namespace

TEST(Splits, AreReadAsTheyAreWritten) {
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    EXPECT_EQ(kSplitNames.find(to_string(split)), split);
    EXPECT_EQ(kSplitNames.parse("evaluate", "split", to_string(split)), split);
  }
  EXPECT_STREQ(to_string(Split::validation), "validation");
  EXPECT_ERROR(kSplitNames.parse("evaluate", "split", "dev"),
               "evaluate: split must be train, validation or test, got dev");
}

TEST(Idx, ReadsPlainAndGzip) {
  for (const bool packed : {false, true}) {
    const TemporaryFolder folder;
    write_small_idx(folder.path(), packed);
    const auto train = open_dataset({.kind = "idx", .path = folder / ""}, Split::train);
    EXPECT_EQ(train->size(), 5);
    EXPECT_EQ(train->image_shape(), (std::array<int64_t, 3>{1, 2, 3}));
    EXPECT_EQ(train->classes().size(), 10);
    const ImageBatch batch = train->batch({4, 0});
    EXPECT_TRUE(
        batch.images.equal(at::tensor({24, 25, 26, 27, 28, 29, 0, 1, 2, 3, 4, 5}, at::kByte).view({2, 1, 2, 3})));
    EXPECT_TRUE(batch.labels.equal(at::tensor({int64_t{4}, int64_t{0}})));
    EXPECT_TRUE(open_dataset({.kind = "idx", .path = folder / ""}, Split::test)
                    ->batch({1})
                    .labels.equal(at::tensor({int64_t{9}})));
  }
}

TEST(Idx, SaysWhichFileIsMissing) {
  const TemporaryFolder folder;
  EXPECT_ERROR(open_dataset({.kind = "idx", .path = folder / ""}, Split::train), "train-images-idx3-ubyte.gz exist");
  EXPECT_ERROR(open_dataset({.kind = "idx", .path = folder / "nowhere"}, Split::train),
               "data.path must be a folder that holds idx files");
}

TEST(Idx, SaysWhatIsWrongWithAFile) {
  const TemporaryFolder folder;
  write_small_idx(folder.path(), false);
  const auto expect = [&](const std::string& images, const char* text) {
    write_file(folder / "train-images-idx3-ubyte", images);
    EXPECT_ERROR(open_dataset({.kind = "idx", .path = folder / ""}, Split::train), text);
    EXPECT_ERROR(open_dataset({.kind = "idx", .path = folder / ""}, Split::train), "train-images-idx3-ubyte: ");
  };
  expect("", "ends inside its header, before the magic number");
  expect(idx({5}, ""), "with 3 dimensions: it starts with 0 0 8 1, expected 0 0 8 3");
  expect(idx({5, 2, 3}, "").substr(0, 10), "ends inside its header, before its sizes");
  expect(idx({5, 2, 3}, counting(20)), "the data ends after 20 bytes, expected 30");
  expect(idx({5, 2, 3}, counting(31)), "there are bytes after the 30");
  expect(idx({0xffffffff, 0xffffffff, 0xffffffff}, counting(31)), "promises more than");
  expect(idx({0, 0xffffffff, 0xffffffff}, ""), "promises more than");
  expect(idx({40000, 1000, 1000}, counting(31)), "more than the file can hold");
  write_file(folder / "train-images-idx3-ubyte", idx({5, 2, 3}, counting(30)));
  write_file(folder / "train-labels-idx1-ubyte", idx({4}, counting(4)));
  EXPECT_ERROR(open_dataset({.kind = "idx", .path = folder / ""}, Split::train), "it has 4 labels, but");
}

TEST(Idx, SaysThatAGzipFileIsCut) {
  const TemporaryFolder folder;
  write_small_idx(folder.path(), true);
  const std::string whole = read_file(folder / "train-images-idx3-ubyte.gz");
  write_file(folder / "train-images-idx3-ubyte.gz", whole.substr(0, whole.size() / 2));
  EXPECT_ERROR(open_dataset({.kind = "idx", .path = folder / ""}, Split::train), "the gzip stream is cut short");
}

TEST(Cifar, ReadsTheBinaryLayout) {
  const TemporaryFolder folder;
  for (int part = 1; part <= 5; ++part) {
    write_file(folder / ("data_batch_" + std::to_string(part) + ".bin"), counting(1, part) + counting(3072, part));
  }
  write_file(folder / "test_batch.bin", counting(1, 9) + counting(3072));
  write_file(folder / "train.bin", counting(2, 70) + counting(3072));
  write_file(folder / "test.bin", counting(2, 7) + counting(3072));
  const auto train = open_dataset({.kind = "cifar10", .path = folder / ""}, Split::train);
  EXPECT_EQ(train->size(), 5);
  const ImageBatch batch = train->batch({3});
  EXPECT_EQ(batch.labels.item<int64_t>(), 4);
  EXPECT_EQ(batch.images[0][2][0][1].item<int>(), (2 * 1024 + 1 + 4) % 256);
  const auto fine = open_dataset({.kind = "cifar100", .path = folder / ""}, Split::train);
  EXPECT_EQ(fine->classes().size(), 100);
  EXPECT_EQ(fine->batch({0}).labels.item<int64_t>(), 71);  // the second byte: fine labels
}

TEST(Cifar, SaysWhatIsWrongWithAFile) {
  const TemporaryFolder folder;
  EXPECT_ERROR(open_dataset({.kind = "cifar10", .path = folder / ""}, Split::test), "test_batch.bin does not exist");
  write_file(folder / "test_batch.bin", counting(3000));
  EXPECT_ERROR(open_dataset({.kind = "cifar10", .path = folder / ""}, Split::test),
               "its size must be a multiple of 3073 bytes, one record of cifar10, got 3000");
  write_file(folder / "test_batch.bin", counting(3073, 10));
  EXPECT_ERROR(open_dataset({.kind = "cifar10", .path = folder / ""}, Split::test), "a label must be below 10, got 10");
}

TEST(ImageFolder, ReadsClassesInOrderAndResizes) {
  const TemporaryFolder folder;
  const auto flat = [](int64_t height, int64_t width, int value) {
    return encode_png(at::full({3, height, width}, value, at::kByte));
  };
  write_file(folder / "train/cat/b.png", flat(40, 20, 10));
  write_file(folder / "train/cat/a.png", flat(20, 33, 20));
  write_file(folder / "train/ant/x.PNG", flat(16, 16, 30));
  write_file(folder / "train/ant/notes.txt", "not an image");
  write_file(folder / "val/cat/v.png", flat(5, 7, 40));
  const DataOptions options{.kind = "image_folder", .path = folder / "", .image_size = 16};
  const auto train = open_dataset(options, Split::train);
  EXPECT_EQ(train->classes(), (std::vector<std::string>{"ant", "cat"}));
  const ImageBatch batch = train->batch({0, 1, 2});
  EXPECT_EQ(batch.images.sizes(), at::IntArrayRef({3, 3, 16, 16}));
  EXPECT_TRUE(batch.labels.equal(at::tensor({int64_t{0}, int64_t{1}, int64_t{1}})));
  EXPECT_TRUE(batch.images.select(1, 0).select(1, 5).select(1, 5).equal(at::tensor({30, 20, 10}, at::kByte)));
  EXPECT_EQ(open_dataset(options, Split::test)->batch({0}).labels.item<int64_t>(), 1);
}

TEST(ImageFolder, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const DataOptions options{.kind = "image_folder", .path = folder / "", .image_size = 16};
  EXPECT_ERROR(open_dataset(options, Split::train), "train is not a folder; image_folder wants train/CLASS/*.jpg");
  std::filesystem::create_directories(folder / "train/cat");
  EXPECT_ERROR(open_dataset(options, Split::train), "no .jpg, .jpeg or .png file in its class folders");
  write_file(folder / "train/cat/a.jpg", "not a picture");
  write_file(folder / "val/dog/a.jpg", "x");
  EXPECT_ERROR(open_dataset(options, Split::train)->batch({0}), "a.jpg: expected a JPEG or PNG file");
  EXPECT_ERROR(open_dataset(options, Split::test), "there is no such class in");
  EXPECT_ERROR(open_dataset({.kind = "image_folder", .path = folder / "", .image_size = 0}, Split::train),
               "data.image_size must be from 1 to 4096, got 0");
}

TEST(Datasets, ValidationIsHeldOutAndTheRestLimited) {
  DataOptions options{.kind = "synthetic", .validation = 13, .image_size = 16, .synthetic_train = 63};
  const auto everything = open_dataset({.image_size = 16, .synthetic_train = 63}, Split::train);
  const auto fingerprints = [](const ImageDataset& dataset) {
    std::multiset<std::string> prints;
    const ImageBatch batch = dataset.batch(all(dataset));
    for (int64_t i = 0; i < dataset.size(); ++i) {
      prints.emplace(reinterpret_cast<const char*>(batch.images[i].const_data_ptr<uint8_t>()), 256);
    }
    return prints;
  };
  const auto held = open_dataset(options, Split::validation), rest = open_dataset(options, Split::train);
  EXPECT_EQ(held->size(), 13);
  EXPECT_EQ(rest->size(), 50);
  auto together = fingerprints(*held);
  together.merge(fingerprints(*rest));
  EXPECT_EQ(together, fingerprints(*everything));

  options.limit = 7;
  const auto few = open_dataset(options, Split::train);
  EXPECT_EQ(few->size(), 7);
  EXPECT_TRUE(few->batch({0, 6}).images.equal(rest->batch({0, 6}).images));
  options.split_seed = 1;
  EXPECT_FALSE(open_dataset(options, Split::train)->batch({0}).images.equal(few->batch({0}).images));
}

TEST(Datasets, BadOptionsAreRefused) {
  EXPECT_ERROR(open_dataset({.kind = "imagenet"}, Split::train),
               "data.kind must be idx, cifar10, cifar100, image_folder or synthetic, got imagenet");
  EXPECT_ERROR(open_dataset({.validation = 5000}, Split::train), "data.validation must be from 0 to 4096");
  EXPECT_ERROR(open_dataset({.limit = -1}, Split::train), "data.limit must not be negative, got -1");
  EXPECT_ERROR(open_dataset({.image_size = 30}, Split::train), "must be a multiple of 4 from 16 to 4096, got 30");
  EXPECT_ERROR(open_dataset({.synthetic_test = -1}, Split::test), "data.synthetic_test must not be negative, got -1");
  const auto small = open_dataset({.synthetic_train = 3}, Split::train);
  EXPECT_ERROR(small->batch({3}), "index must be in [0, 3) for synthetic, got 3");
  EXPECT_ERROR(subset(small, {-1}), "index must be in [0, 3) for synthetic, got -1");
  EXPECT_ERROR(memory_dataset("x", at::zeros({1, 2, 2}), at::zeros({1}, at::kLong), {"a"}),
               "images must be uint8 [N, C, H, W] on the CPU, got Float[1, 2, 2]");
  EXPECT_ERROR(memory_dataset("x", at::zeros({1, 1, 2, 2}, at::kByte), at::zeros({2}, at::kLong), {"a"}),
               "labels must be int64 [1], got Long[2]");
  EXPECT_ERROR(memory_dataset("x", at::zeros({1, 1, 2, 2}, at::kByte), at::ones({1}, at::kLong), {"a"}),
               "labels must be in [0, 1), got 1");
}

TEST(Datasets, EmptyOnesGiveEmptyBatches) {
  const auto empty = open_dataset({.image_size = 16, .synthetic_train = 0}, Split::train);
  EXPECT_EQ(empty->batch({}).images.sizes(), at::IntArrayRef({0, 1, 16, 16}));
}

TEST(Synthetic, ClassesHaveTheSameBrightnessOnAverage) {
  const auto dataset = open_dataset({.image_size = 32, .synthetic_train = 400}, Split::train);
  const ImageBatch batch = dataset->batch(all(*dataset));
  const at::Tensor brightness = batch.images.to(at::kDouble).mean({1, 2, 3});
  const double overall = brightness.mean().item<double>();
  for (int64_t label = 0; label < 4; ++label) {
    EXPECT_NEAR(brightness.index({batch.labels == label}).mean().item<double>(), overall, 1.5);
  }
}
