#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "topomask/data/dataset.h"
#include "topomask/export.h"

namespace TOPOMASK_API topomask {

struct LoaderOptions {
  int64_t batch_size = 128;  ///< from 1 to 2³²
  int64_t workers = 2;       ///< threads that make batches ahead; 0: next() makes them itself
  int64_t prefetch = 4;      ///< batches ready or being made, at most; up to 65536
  bool shuffle = true;       ///< a new order every epoch
  bool drop_last = true;     ///< an epoch ends before a batch that would be smaller than the others
  int64_t crop_padding = 0;  ///< pad by zeros on every side, crop back at a random place
  bool flip = false;         ///< mirror left to right, half of the time
  uint64_t seed = 0;
};

/// Batches of a data set, without end: step s is batch s mod steps_per_epoch of epoch s div steps_per_epoch.
///
/// A batch is a pure function of (data set, options less workers and prefetch, step), so that a run continues at any
/// step as if it had never stopped. The order of an epoch is drawn by Philox from (seed, epoch), crop and flip of an
/// image from (seed, epoch, image). Batches are made by worker threads; what goes wrong there is thrown by next() when
/// it comes to that batch.
class Loader {
 public:
  Loader(DatasetPtr dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  ImageBatch next();        ///< the batch of step(), which moves on by one
  void seek(int64_t step);  ///< next() gives this step
  int64_t step() const;     ///< what next() gives
  int64_t steps_per_epoch() const;
  ImageBatch at_step(int64_t step) const;  ///< made here and now; the workers are left alone
  /// Places in the data set of the images of a step.
  std::vector<int64_t> indices(int64_t step) const;

 private:
  class Workers;
  struct Source;
  std::shared_ptr<Source> source_;
  std::unique_ptr<Workers> workers_;
  int64_t step_ = 0;
};

}  // namespace topomask
