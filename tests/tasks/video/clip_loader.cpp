#include "tasks/video/clip_loader.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

namespace topomask {
namespace {

/// Computes with torch, and counts the threads that took part.
class ComputedClips final : public VideoDataset {
 public:
  ComputedClips() : VideoDataset({"computed clips", 24, {"only"}, {2, 1, 2, 2}}) {}
  int64_t read(int64_t index, uint8_t* clip) const override {
    std::fill_n(clip, 8, static_cast<uint8_t>(index));
    at::ones({1 << 18}).sum().item<double>();
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

TEST(ClipLoader, WorkersComputeOnOneThreadEach) {
  const int threads = at::get_num_threads();
  at::set_num_threads(4);
  const auto clips = std::make_shared<ComputedClips>();
  ClipLoader loader(clips, /*batch_size=*/8, /*workers=*/3, /*seed=*/1);
  for (int64_t step = 0; step < 9; ++step) loader.load(step);
  EXPECT_EQ(clips->most_threads, 1);
  EXPECT_EQ(at::get_num_threads(), 4) << "the thread that trains has all of its own";
  at::set_num_threads(threads);
}

TEST(ClipLoader, BatchesAreTheSameForAnyNumberOfWorkers) {
  const auto clips = std::make_shared<ComputedClips>();
  ClipLoader alone(clips, 5, 0, 7), two(clips, 5, 2, 7);
  for (const int64_t step : {0, 1, 2, 3, 4, 5, 17, 18, 3}) {  // over the end of an epoch, ahead and back
    EXPECT_TRUE(alone.load(step).clips.equal(two.load(step).clips)) << step;
  }
}

}  // namespace
}  // namespace topomask
