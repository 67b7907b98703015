#include "tasks/video/clip_loader.h"

#include "core/threads.h"
#include "data/random_order.h"

namespace topomask {

ClipLoader::ClipLoader(VideoPtr clips, int64_t batch_size, int64_t workers, uint64_t seed)
    : clips_(std::move(clips)), batch_size_(batch_size), workers_(workers), seed_(seed) {}

std::vector<int64_t> ClipLoader::indices(int64_t step) {
  const int64_t epoch = step / steps_per_epoch(), first = step % steps_per_epoch() * batch_size_;
  if (epoch != epoch_) {
    order_ = random_order(clips_->size(), seed_, static_cast<uint32_t>(epoch), DrawFor::order);
    epoch_ = epoch;
  }
  return {order_.begin() + first, order_.begin() + first + batch_size_};
}

VideoBatch ClipLoader::load(int64_t step) {
  if (workers_ == 0) return clips_->batch(indices(step));
  if (ahead_.empty() || first_ahead_ != step) {
    ahead_.clear();
    first_ahead_ = step;
  }
  while (std::ssize(ahead_) <= workers_) {
    ahead_.push_back(
        std::async(std::launch::async, [clips = clips_, places = indices(first_ahead_ + std::ssize(ahead_))] {
          compute_on_this_thread_only();
          return clips->batch(places);
        }));
  }
  VideoBatch batch = ahead_.front().get();
  ahead_.pop_front();
  ++first_ahead_;
  return batch;
}

}  // namespace topomask
