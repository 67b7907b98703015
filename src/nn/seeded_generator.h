#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace topomask {

/// While it lives, torch's CPU generator draws from a seed; then it goes on where it was.
class SeededGenerator {
 public:
  explicit SeededGenerator(uint64_t seed) : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~SeededGenerator() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  SeededGenerator(const SeededGenerator&) = delete;
  SeededGenerator& operator=(const SeededGenerator&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace topomask
