#include "topomask/data/loader.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <mutex>
#include <set>
#include <thread>

#include "support/compare.h"
#include "topomask/data/prepare.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

DatasetPtr some_images(int64_t count) {
  return open_dataset({.image_size = 16, .synthetic_train = count}, Split::train);
}

bool same(const ImageBatch& a, const ImageBatch& b) {
  return a.images.equal(b.images) && a.labels.equal(b.labels);
}

/// Every image but one can be read.
class OneBadImage final : public ImageDataset {
 public:
  OneBadImage() : ImageDataset({"one bad image", 20, {"only"}, {1, 2, 2}}) {}
  int64_t read(int64_t index, uint8_t* image) const override {
    TORCH_CHECK(index != 11, "image 11 is broken");
    std::fill_n(image, 4, static_cast<uint8_t>(index));
    return 0;
  }
};

/// Computes with torch, and counts the threads that took part.
class ComputedImages final : public ImageDataset {
 public:
  ComputedImages() : ImageDataset({"computed images", 24, {"only"}, {1, 2, 2}}) {}
  int64_t read(int64_t, uint8_t* image) const override {
    std::fill_n(image, 4, static_cast<uint8_t>(at::ones({1 << 18}).sum().item<double>() / (1 << 18)));
    std::set<std::thread::id> seen;
    std::mutex mutex;
    at::parallel_for(0, 64, 1, [&](int64_t, int64_t) {
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    const std::lock_guard lock(mutex_);
    most_threads = std::max({most_threads, static_cast<int>(seen.size()), at::get_num_threads()});
    return 0;
  }

  mutable int most_threads = 0;

 private:
  mutable std::mutex mutex_;
};

}  // namespace

TEST(Loader, WorkersComputeOnOneThreadEach) {
  const int threads = at::get_num_threads();
  at::set_num_threads(4);
  const auto images = std::make_shared<ComputedImages>();
  {
    Loader loader(images, {.batch_size = 8, .workers = 3});
    for (int step = 0; step < 9; ++step) loader.next();
  }
  EXPECT_EQ(images->most_threads, 1);
  EXPECT_EQ(at::get_num_threads(), 4) << "the thread that trains has all of its own";
  at::set_num_threads(threads);
}

TEST(Loader, BatchesAreTheSameForAnyNumberOfWorkers) {
  LoaderOptions options{.batch_size = 7, .workers = 0, .crop_padding = 2, .flip = true, .seed = 5};
  Loader serial(some_images(63), options);
  options.workers = 3;
  options.prefetch = 2;
  Loader threaded(some_images(63), options);
  for (int step = 0; step < 25; ++step) {
    const ImageBatch batch = serial.next();
    EXPECT_TRUE(same(batch, threaded.next())) << step;
    EXPECT_TRUE(same(batch, threaded.at_step(step))) << step;
  }
  EXPECT_EQ(threaded.step(), 25);
}

TEST(Loader, SeekingGoesAnywhere) {
  Loader loader(some_images(63), {.batch_size = 8, .workers = 2, .seed = 3});
  for (const int64_t step : {30, 2, 3, 0, 1000, 31}) {
    loader.seek(step);
    EXPECT_TRUE(same(loader.next(), loader.at_step(step)));
    EXPECT_TRUE(same(loader.next(), loader.at_step(step + 1)));
  }
  EXPECT_ERROR(loader.seek(-1), "Loader::seek: step must not be negative, got -1");
}

TEST(Loader, SeekingWhileWorkersAreBusyLosesNothing) {
  LoaderOptions options{.batch_size = 5, .workers = 4, .prefetch = 6, .flip = true, .seed = 3};
  const DatasetPtr images = some_images(63);
  for (int round = 0; round < 5; ++round) {  // destroyed with batches under way
    Loader loader(images, options);
    for (const int64_t step : {0, 11, 12, 40, 3, 13}) {
      loader.seek(step);
      EXPECT_TRUE(same(loader.next(), loader.at_step(step))) << step;
    }
  }
}

TEST(Loader, AnEpochVisitsEveryImageOnceInAnOrderOfItsOwn) {
  Loader loader(some_images(61), {.batch_size = 8, .workers = 0, .drop_last = false, .seed = 3});
  EXPECT_EQ(loader.steps_per_epoch(), 8);
  std::vector<std::vector<int64_t>> orders(2);
  for (int64_t step = 0; step < 16; ++step) {
    for (const int64_t index : loader.indices(step)) orders[static_cast<size_t>(step / 8)].push_back(index);
  }
  EXPECT_NE(orders[0], orders[1]);
  for (const auto& order : orders) EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 61);
  EXPECT_EQ(Loader(some_images(61), {.batch_size = 8}).steps_per_epoch(), 7);
}

TEST(Loader, WithoutShufflingImagesComeInOrder) {
  Loader loader(some_images(5), {.batch_size = 2, .shuffle = false, .drop_last = false});
  EXPECT_EQ(loader.indices(2), (std::vector<int64_t>{4}));
  EXPECT_EQ(loader.indices(4), (std::vector<int64_t>{2, 3}));
}

TEST(Loader, WhatFailsInAWorkerIsThrownByNext) {
  Loader loader(std::make_shared<OneBadImage>(), {.batch_size = 4, .workers = 2, .shuffle = false});
  EXPECT_EQ(loader.next().images[3][0][0][0].item<int>(), 3);
  loader.next();
  EXPECT_ERROR(loader.next(), "image 11 is broken");
  EXPECT_ERROR(loader.next(), "image 11 is broken");
  loader.seek(3);
  EXPECT_EQ(loader.next().images[0][0][0][0].item<int>(), 12);
}

TEST(Loader, CropsAreShiftsOverZerosAndFlipsMirror) {
  const at::Tensor image = at::arange(1, 17).view({1, 1, 4, 4}).to(at::kByte);
  const auto dataset = memory_dataset("one", image, at::zeros({1}, at::kLong), {"only"});
  Loader loader(dataset, {.batch_size = 1, .workers = 0, .crop_padding = 1, .flip = true});
  const at::Tensor padded = at::constant_pad_nd(image, {1, 1, 1, 1}, 0);
  std::set<std::pair<int64_t, bool>> seen;
  for (int64_t step = 0; step < 300; ++step) {
    const at::Tensor got = loader.at_step(step).images;
    for (int64_t place = 0; place < 9; ++place) {
      const at::Tensor crop = padded.slice(2, place / 3, place / 3 + 4).slice(3, place % 3, place % 3 + 4);
      if (got.equal(crop)) seen.emplace(place, false);
      if (got.equal(crop.flip({3}))) seen.emplace(place, true);
    }
  }
  EXPECT_EQ(seen.size(), 18);
}

TEST(Loader, BadOptionsAreRefused) {
  EXPECT_ERROR(Loader(nullptr, {}), "dataset must not be null");
  EXPECT_ERROR(Loader(some_images(0), {}), "Loader: synthetic has no images");
  EXPECT_ERROR(Loader(some_images(5), {.batch_size = 0}), "batch_size must be positive, got 0");
  EXPECT_ERROR(Loader(some_images(5), {.batch_size = 6}),
               "batch_size must be at most 5, the images of synthetic, got 6");
  EXPECT_ERROR(Loader(some_images(5), {.batch_size = 1, .workers = -1}), "workers must be from 0 to 1024, got -1");
  EXPECT_ERROR(Loader(some_images(5), {.batch_size = 1, .prefetch = -1}), "prefetch must not be negative, got -1");
  EXPECT_ERROR(Loader(some_images(5), {.batch_size = 1, .crop_padding = 16}),
               "crop_padding must be from 0 to less than");
}

TEST(Prepare, Normalises) {
  const ImageBatch batch{at::full({2, 1, 3, 3}, 255, at::kByte), at::zeros({2}, at::kLong)};
  const TrainBatch ready = prepare(batch, {.mean = {0.5}, .standard_deviation = {0.25}, .classes = 2}, at::kCPU, 0, 0);
  EXPECT_TRUE(close(ready.images, at::full({2, 1, 3, 3}, 2.0), 1e-6));
  EXPECT_FALSE(ready.targets.defined());
}

TEST(Prepare, MixingIsAFunctionOfSeedAndStep) {
  const auto dataset = open_dataset({.image_size = 16, .synthetic_train = 12}, Split::train);
  const ImageBatch batch = Loader(dataset, {.batch_size = 12, .workers = 0}).next();
  for (const auto& [mixup, cutmix] : {std::pair{0.4, 0.0}, {0.0, 1.0}, {0.4, 1.0}}) {
    const AugmentOptions options = augment_options({.mixup = mixup, .cutmix = cutmix}, *dataset);
    const TrainBatch one = prepare(batch, options, at::kCPU, 7, 3), again = prepare(batch, options, at::kCPU, 7, 3),
                     other = prepare(batch, options, at::kCPU, 7, 4);
    EXPECT_TRUE(one.images.equal(again.images) && one.targets.equal(again.targets));
    EXPECT_FALSE(one.images.equal(other.images));
    EXPECT_TRUE(close(one.targets.sum(-1), at::ones({12}), 1e-6));
  }
}

TEST(Prepare, CutMixLabelsAreTheSharesOfPixels) {
  const at::Tensor labels = at::arange(8);
  const ImageBatch batch{(labels * 10).view({8, 1, 1, 1}).expand({8, 1, 9, 11}).to(at::kByte).contiguous(), labels};
  const AugmentOptions options{.mean = {0}, .standard_deviation = {1}, .classes = 8, .cutmix = 1};
  for (int64_t step = 0; step < 20; ++step) {
    const TrainBatch ready = prepare(batch, options, at::kCPU, 1, step);
    const at::Tensor shown = (ready.images * 25.5).round().to(at::kLong).view({8, -1});  // the label of each pixel
    for (int64_t i = 0; i < 8; ++i) {
      const at::Tensor share = at::bincount(shown[i], {}, 8).to(at::kFloat) / 99;
      EXPECT_TRUE(close(ready.targets[i], share, 1e-5));
    }
  }
}

TEST(Prepare, BadInputIsRefused) {
  const ImageBatch batch{at::zeros({2, 3, 4, 4}, at::kByte), at::zeros({2}, at::kLong)};
  EXPECT_ERROR(prepare(batch, {.mean = {0}, .standard_deviation = {1}}, at::kCPU, 0, 0),
               "one value for each of 3 channels, got 1 and 1");
  EXPECT_ERROR(prepare(batch, {.mean = {0, 0, 0}, .standard_deviation = {1, 0, 1}}, at::kCPU, 0, 0),
               "standard_deviation must be positive, got 0");
  EXPECT_ERROR(prepare(batch, {.mean = {0, 0, 0}, .standard_deviation = {1, 1, 1}, .mixup = -1}, at::kCPU, 0, 0),
               "mixup and cutmix must not be negative, got -1");
  EXPECT_ERROR(prepare({at::zeros({2, 3, 4, 4}), batch.labels}, {}, at::kCPU, 0, 0),
               "images must be uint8 [B, C, H, W], got Float[2, 3, 4, 4]");
}
