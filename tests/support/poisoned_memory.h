#pragma once

#include <ATen/Context.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace topomask::testing {

/// While it lives, memory that is handed out on `device` holds no usable number: every byte is 0xFF, which reads as NaN
/// in every floating-point type and as -1 in signed integers. An operator that leaves a part of its output unwritten,
/// or adds to memory that it did not clear, then gives a wrong result in every run instead of in some.
///
/// CPU: torch's allocator is wrapped, and the library's cache of freed blocks (topomask/memory.h) is switched off, so
/// that it cannot hand out a block with old results. Every test program runs its tests like this (main.cpp).
/// CUDA: torch fills the tensors of at::empty itself, which it does only together with its deterministic algorithms.
///
/// One at a time for each device.
class PoisonedMemory {
 public:
  explicit PoisonedMemory(at::Device device = at::kCPU);
  ~PoisonedMemory();
  PoisonedMemory(const PoisonedMemory&) = delete;
  PoisonedMemory& operator=(const PoisonedMemory&) = delete;

 private:
  at::Device device_;
  c10::Allocator* allocator_ = nullptr;  // the one that was replaced
  int64_t kept_memory_limit_ = 0;
  bool deterministic_ = false, warn_only_ = false, fill_ = false;
};

}  // namespace topomask::testing
