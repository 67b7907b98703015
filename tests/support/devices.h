#pragma once

#include <ATen/Context.h>

#include <optional>
#include <vector>

#include "support/poisoned_memory.h"

namespace topomask::testing {

inline bool has_cuda() {
  return at::hasCUDA() && at::getNumGPUs() > 0;
}

/// For `for (const at::Device device : devices())`: the CPU, and the first GPU where there is one. While a loop is at
/// the GPU, what is handed out there is poisoned, as that of the CPU is in every test.
class Devices {
 public:
  class Place {
   public:
    using Iterator = std::vector<at::Device>::const_iterator;
    Place(Iterator at, Iterator end) : at_(at), end_(end) { poison(); }

    at::Device operator*() const { return *at_; }
    bool operator!=(const Place& other) const { return at_ != other.at_; }
    Place& operator++() {
      poison_.reset();
      ++at_;
      poison();
      return *this;
    }

   private:
    void poison() {
      if (at_ != end_ && !at_->is_cpu()) poison_.emplace(*at_);
    }

    Iterator at_, end_;
    std::optional<PoisonedMemory> poison_;
  };

  Devices() {
    if (has_cuda()) all_.emplace_back(at::kCUDA, 0);
  }
  Place begin() const { return {all_.begin(), all_.end()}; }
  Place end() const { return {all_.end(), all_.end()}; }

 private:
  std::vector<at::Device> all_{at::kCPU};
};

inline Devices devices() {
  return {};
}

}  // namespace topomask::testing
