#include "topomask/data/loader.h"

#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "core/threads.h"
#include "data/random_order.h"

namespace topomask {
namespace {

/// Moves the image by (dy, dx) over zeros and mirrors it, in place; `scratch` is as large as the image.
void shift_and_flip(uint8_t* image, std::vector<uint8_t>& scratch, const std::array<int64_t, 3>& shape, int64_t dy,
                    int64_t dx, bool flip) {
  const auto [channels, height, width] = shape;
  std::memcpy(scratch.data(), image, scratch.size());
  for (int64_t row = 0; row < channels * height; ++row) {
    const int64_t y = row % height + dy;
    for (int64_t x = 0; x < width; ++x) {
      const int64_t from = (flip ? width - 1 - x : x) + dx;
      const bool inside = y >= 0 && y < height && from >= 0 && from < width;
      image[row * width + x] = inside ? scratch[static_cast<size_t>((row + dy) * width + from)] : 0;
    }
  }
}

}  // namespace

/// How batches are made: const and shared by the threads.
struct Loader::Source {
  DatasetPtr dataset;
  LoaderOptions options;
  int64_t steps = 0;  // of an epoch

  std::vector<int64_t> indices(int64_t step) const {
    const int64_t epoch = step / steps, first = step % steps * options.batch_size;
    const int64_t last = std::min(first + options.batch_size, dataset->size());
    if (!options.shuffle) {
      std::vector<int64_t> places(static_cast<size_t>(last - first));
      std::iota(places.begin(), places.end(), first);
      return places;
    }
    const auto order = epoch_order(epoch);
    return {order->begin() + first, order->begin() + last};
  }

  ImageBatch make(int64_t step) const {
    const std::vector<int64_t> places = indices(step);
    ImageBatch batch = dataset->batch(places);
    if (options.crop_padding == 0 && !options.flip) return batch;
    const auto epoch = static_cast<uint32_t>(step / steps);
    const int64_t bytes = batch.images.stride(0), padding = options.crop_padding;
    std::vector<uint8_t> scratch(static_cast<size_t>(bytes));
    auto* images = batch.images.mutable_data_ptr<uint8_t>();
    for (size_t i = 0; i < places.size(); ++i) {
      const PhiloxWords draw =
          philox({static_cast<uint32_t>(places[i]), 0, epoch, static_cast<uint32_t>(DrawFor::augmentation)},
                 philox_key(options.seed));
      const auto range = static_cast<uint32_t>(2 * padding + 1);
      shift_and_flip(images + static_cast<int64_t>(i) * bytes, scratch, dataset->image_shape(),
                     random_below(draw.a, range) - padding, random_below(draw.b, range) - padding,
                     options.flip && draw.c >> 31 != 0);
    }
    return batch;
  }

 private:
  using Order = std::shared_ptr<const std::vector<int64_t>>;

  /// The orders of two epochs are kept: workers stand on both sides of the change.
  Order epoch_order(int64_t epoch) const {
    const std::lock_guard lock(mutex_);
    Order& kept = orders_[epoch % 2];
    if (!kept || epochs_[epoch % 2] != epoch) {
      kept = std::make_shared<const std::vector<int64_t>>(
          random_order(dataset->size(), options.seed, static_cast<uint32_t>(epoch), DrawFor::order));
      epochs_[epoch % 2] = epoch;
    }
    return kept;
  }

  mutable std::mutex mutex_;
  mutable std::array<Order, 2> orders_;
  mutable std::array<int64_t, 2> epochs_{-1, -1};
};

/// Threads that make the batches from a step on, at most `prefetch` ahead of the one that is wanted.
class Loader::Workers {
 public:
  explicit Workers(std::shared_ptr<const Source> source) : source_(std::move(source)) {
    for (int64_t i = 0; i < source_->options.workers; ++i) threads_.emplace_back([this] { work(); });
  }

  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  ImageBatch take(int64_t step) {
    std::unique_lock lock(mutex_);
    if (step != wanted_) {  // the caller called seek()
      wanted_ = claimed_ = step;
      made_.clear();
      ++generation_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return made_.contains(step); });
    Made made = std::move(made_.extract(step).mapped());
    ++wanted_;
    changed_.notify_all();
    if (made.error) std::rethrow_exception(made.error);
    return std::move(made.batch);
  }

 private:
  struct Made {
    ImageBatch batch;
    std::exception_ptr error;
  };

  void work() {
    compute_on_this_thread_only();
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock,
                    [&] { return stopping_ || claimed_ < wanted_ + std::max<int64_t>(1, source_->options.prefetch); });
      if (stopping_) return;
      const int64_t step = claimed_++, generation = generation_;
      lock.unlock();
      Made made;
      try {
        made.batch = source_->make(step);
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      if (generation == generation_) made_.emplace(step, std::move(made));
      changed_.notify_all();
    }
  }

  std::shared_ptr<const Source> source_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Made> made_;
  int64_t wanted_ = 0, claimed_ = 0, generation_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

Loader::Loader(DatasetPtr dataset, const LoaderOptions& options) : source_(std::make_shared<Source>()) {
  TORCH_CHECK(dataset != nullptr, "Loader: dataset must not be null");
  TORCH_CHECK(dataset->size() > 0, "Loader: ", dataset->name(), " has no images");
  TORCH_CHECK(dataset->size() < int64_t{1} << 32, "Loader: a data set must have fewer than 2^32 images, got ",
              dataset->size());
  TORCH_CHECK(options.batch_size > 0, "Loader: batch_size must be positive, got ", options.batch_size);
  TORCH_CHECK(options.batch_size <= int64_t{1} << 32, "Loader: batch_size must be at most 2^32, got ",
              options.batch_size);
  TORCH_CHECK(options.workers >= 0 && options.workers <= 1024, "Loader: workers must be from 0 to 1024, got ",
              options.workers);
  TORCH_CHECK(options.prefetch >= 0, "Loader: prefetch must not be negative, got ", options.prefetch);
  TORCH_CHECK(options.prefetch <= 65536, "Loader: prefetch must be at most 65536, got ", options.prefetch);
  const auto [channels, height, width] = dataset->image_shape();
  TORCH_CHECK(options.crop_padding >= 0 && options.crop_padding < std::min(height, width),
              "Loader: crop_padding must be from 0 to less than the side of an image, ", std::min(height, width),
              ", got ", options.crop_padding);
  source_->options = options;
  source_->steps = options.drop_last ? dataset->size() / options.batch_size
                                     : (dataset->size() + options.batch_size - 1) / options.batch_size;
  TORCH_CHECK(source_->steps > 0, "Loader: batch_size must be at most ", dataset->size(), ", the images of ",
              dataset->name(), ", got ", options.batch_size);
  source_->dataset = std::move(dataset);
  if (options.workers > 0) workers_ = std::make_unique<Workers>(source_);
}

Loader::~Loader() = default;

ImageBatch Loader::next() {
  const int64_t step = step_;
  ImageBatch batch = workers_ ? workers_->take(step) : source_->make(step);
  step_ = step + 1;
  return batch;
}

void Loader::seek(int64_t step) {
  TORCH_CHECK(step >= 0, "Loader::seek: step must not be negative, got ", step);
  step_ = step;
}

int64_t Loader::step() const {
  return step_;
}

int64_t Loader::steps_per_epoch() const {
  return source_->steps;
}

ImageBatch Loader::at_step(int64_t step) const {
  TORCH_CHECK(step >= 0, "Loader::at_step: step must not be negative, got ", step);
  return source_->make(step);
}

std::vector<int64_t> Loader::indices(int64_t step) const {
  TORCH_CHECK(step >= 0, "Loader::indices: step must not be negative, got ", step);
  return source_->indices(step);
}

}  // namespace topomask
