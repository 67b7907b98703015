#include "core/large_pages.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstdint>

namespace topomask {

void prefer_large_pages([[maybe_unused]] const at::Tensor& fresh) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t kLargePage = uintptr_t{2} << 20;
  constexpr size_t kWorthIt = size_t{16} << 20;  // what malloc reuses is below
  if (!fresh.defined() || !fresh.device().is_cpu() || fresh.nbytes() < kWorthIt) return;
  const auto begin = (reinterpret_cast<uintptr_t>(fresh.data_ptr()) + kLargePage - 1) / kLargePage * kLargePage;
  const auto end = (reinterpret_cast<uintptr_t>(fresh.data_ptr()) + fresh.nbytes()) / kLargePage * kLargePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace topomask
