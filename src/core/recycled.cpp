#include "core/recycled.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <list>
#include <mutex>

#include "topomask/memory.h"

namespace topomask {

namespace {

/// malloc reuses what is smaller well enough.
constexpr int64_t kLeastBytes = int64_t{1} << 20;

int64_t first_limit() {
  return std::min(int64_t{2} << 30, int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE) / 8);
}

struct Block {
  c10::DataPtr memory;
  int64_t bytes;
};

class KeptMemory {
 public:
  /// The smallest kept block that fits and wastes at most a quarter, or a new one.
  Block take(int64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      auto best = blocks_.end();
      for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
        if (block->bytes < bytes || block->bytes > bytes + bytes / 4) continue;
        if (best == blocks_.end() || block->bytes < best->bytes) best = block;
      }
      if (best != blocks_.end()) {
        Block taken = std::move(*best);
        blocks_.erase(best);
        total_ -= taken.bytes;
        return taken;
      }
    }
    Block made{c10::GetCPUAllocator()->allocate(bytes), bytes};
    ask_for_large_pages(made);
    return made;
  }

  void keep(Block block) {
    std::list<Block> freed;  // outside the lock
    const std::lock_guard lock(mutex_);
    total_ += block.bytes;
    blocks_.push_back(std::move(block));
    trim(freed);
  }

  void set_limit(int64_t bytes) {
    std::list<Block> freed;
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
    trim(freed);
  }

  void release() {
    std::list<Block> freed;
    const std::lock_guard lock(mutex_);
    freed.swap(blocks_);
    total_ = 0;
  }

  int64_t total() {
    const std::lock_guard lock(mutex_);
    return total_;
  }

  int64_t limit() {
    const std::lock_guard lock(mutex_);
    return limit_;
  }

 private:
  void trim(std::list<Block>& freed) {
    while (total_ > limit_) {
      total_ -= blocks_.front().bytes;
      freed.splice(freed.end(), blocks_, blocks_.begin());
    }
  }

  static void ask_for_large_pages([[maybe_unused]] const Block& block) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr uintptr_t kLargePage = uintptr_t{2} << 20;
    const auto start = reinterpret_cast<uintptr_t>(block.memory.get());
    const uintptr_t begin = (start + kLargePage - 1) / kLargePage * kLargePage;
    const uintptr_t end = (start + block.bytes) / kLargePage * kLargePage;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
  }

  std::mutex mutex_;
  std::list<Block> blocks_;  // the oldest first
  int64_t total_ = 0;
  int64_t limit_ = first_limit();
};

KeptMemory& kept() {
  static KeptMemory& memory = *new KeptMemory;  // never destroyed: static tensors may outlive it
  return memory;
}

}  // namespace

at::Tensor recycled_empty(at::IntArrayRef sizes, const at::TensorOptions& options) {
  const int64_t bytes = c10::multiply_integers(sizes) * static_cast<int64_t>(options.dtype().itemsize());
  if (bytes < kLeastBytes || !options.device().is_cpu()) return at::empty(sizes, options);
  auto* block = new Block(kept().take(bytes));
  const auto keep = [block](void*) {
    kept().keep(std::move(*block));
    delete block;
  };
  return at::from_blob(block->memory.get(), sizes, keep, options);
}

void set_kept_memory_limit(int64_t bytes) {
  TORCH_CHECK(bytes >= 0, "set_kept_memory_limit: bytes must be >= 0, got ", bytes);
  kept().set_limit(bytes);
}

int64_t kept_memory_limit() {
  return kept().limit();
}

int64_t kept_memory() {
  return kept().total();
}

void release_kept_memory() {
  kept().release();
}

}  // namespace topomask
