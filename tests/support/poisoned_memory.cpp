#include "support/poisoned_memory.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "topomask/memory.h"

namespace topomask::testing {
namespace {

class PoisoningAllocator final : public c10::Allocator {
 public:
  explicit PoisoningAllocator(c10::Allocator& inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr memory = inner_.allocate(bytes);
    if (bytes > 0) std::memset(memory.get(), 0xFF, bytes);
    return memory;
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_.raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override { inner_.copy_data(to, from, bytes); }

 private:
  c10::Allocator& inner_;
};

/// Never destroyed: tensors remember the allocator of their memory, and some outlive the test.
c10::Allocator* poisoning_allocator(c10::Allocator& inner) {
  static auto& allocator = *new PoisoningAllocator(inner);
  return &allocator;
}

}  // namespace

PoisonedMemory::PoisonedMemory(at::Device device) : device_(device) {
  if (device_.is_cpu()) {
    kept_memory_limit_ = kept_memory_limit();
    set_kept_memory_limit(0);
    allocator_ = c10::GetCPUAllocator();
    c10::SetCPUAllocator(poisoning_allocator(*allocator_));
    return;
  }
  at::Context& context = at::globalContext();
  deterministic_ = context.deterministicAlgorithms();
  warn_only_ = context.deterministicAlgorithmsWarnOnly();
  fill_ = context.deterministicFillUninitializedMemory();
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(true);
}

PoisonedMemory::~PoisonedMemory() {
  if (device_.is_cpu()) {
    c10::SetCPUAllocator(allocator_);
    set_kept_memory_limit(kept_memory_limit_);
    return;
  }
  at::globalContext().setDeterministicAlgorithms(deterministic_, warn_only_);
  at::globalContext().setDeterministicFillUninitializedMemory(fill_);
}

}  // namespace topomask::testing
