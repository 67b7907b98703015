#include "peak_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>

namespace topomask::bench {
namespace {

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (!measuring_) return inner_->allocate(bytes);
    auto* block = new Block{inner_->allocate(bytes), static_cast<int64_t>(bytes), this, measurement_};
    const int64_t live = live_ += block->bytes;
    int64_t peak = peak_;
    while (live > peak && !peak_.compare_exchange_weak(peak, live)) {
    }
    return {block->memory.get(), block, &release, c10::Device(c10::kCPU)};
  }

  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }

  void start() {
    ++measurement_;
    live_ = peak_ = 0;
    measuring_ = true;
  }

  int64_t stop() {
    measuring_ = false;
    return peak_;
  }

 private:
  struct Block {
    c10::DataPtr memory;
    int64_t bytes;
    CountingAllocator* owner;
    int64_t measurement;
  };

  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    // A block that outlived its measurement was never counted in the present one.
    if (block->measurement == block->owner->measurement_) block->owner->live_ -= block->bytes;
    delete block;
  }

  c10::Allocator* inner_;
  std::atomic<bool> measuring_ = false;
  std::atomic<int64_t> measurement_ = 0;
  std::atomic<int64_t> live_ = 0;
  std::atomic<int64_t> peak_ = 0;
};

CountingAllocator& counting_allocator() {
  // Never destroyed: tensors of other static objects may still hold its blocks.
  static CountingAllocator* allocator = [] {
    auto* made = new CountingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(made, /*priority=*/100);
    return made;
  }();
  return *allocator;
}

}  // namespace

int64_t peak_bytes(const std::function<void()>& call) {
  CountingAllocator& allocator = counting_allocator();
  allocator.start();
  try {
    call();
  } catch (...) {
    allocator.stop();
    throw;
  }
  return allocator.stop();
}

}  // namespace topomask::bench
