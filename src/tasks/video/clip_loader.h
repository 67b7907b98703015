#pragma once

#include <cstdint>
#include <deque>
#include <future>
#include <vector>

#include "core/internal_api.h"
#include "topomask/data/video.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Batches of clips, without end: an epoch has a new random order and ends before a batch that would be smaller. A
/// batch is a pure function of (data set, batch size, seed, step); threads make those of the next `workers` steps
/// ahead, and compute on no other.
class ClipLoader {
 public:
  ClipLoader(VideoPtr clips, int64_t batch_size, int64_t workers, uint64_t seed);

  int64_t steps_per_epoch() const { return clips_->size() / batch_size_; }
  VideoBatch load(int64_t step);

 private:
  std::vector<int64_t> indices(int64_t step);

  VideoPtr clips_;
  int64_t batch_size_, workers_;
  uint64_t seed_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;                 // of epoch_
  int64_t first_ahead_ = 0;                    // the step of ahead_.front()
  std::deque<std::future<VideoBatch>> ahead_;  // waited for where they are dropped
};

}  // namespace topomask
