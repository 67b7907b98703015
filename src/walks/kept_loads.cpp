#include "walks/kept_loads.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <cstring>

namespace topomask {
namespace {

bool same_bytes_in_parallel(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  constexpr int64_t kBlock = 1 << 18;
  const at::Tensor left = a.contiguous(), right = b.contiguous();
  const auto *x = static_cast<const char*>(left.const_data_ptr()),
             *y = static_cast<const char*>(right.const_data_ptr());
  std::atomic<bool> same = true;
  at::parallel_for(0, static_cast<int64_t>(left.nbytes()), kBlock, [&](int64_t begin, int64_t end) {
    if (std::memcmp(x + begin, y + begin, static_cast<size_t>(end - begin)) != 0) same = false;
  });
  return same;
}

}  // namespace

KeptLoads::Values KeptLoads::current(const at::Tensor& loads) {
  const std::lock_guard lock(mutex_);
  const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
  const at::NoGradGuard no_grad;
  const bool made = kept_.loads.defined();
  if (made && (!loads.is_cpu() || same_bytes_in_parallel(loads.detach(), kept_.loads))) return kept_;
  kept_ = {loads.detach().clone(at::MemoryFormat::Contiguous), kept_.number + 1};
  return kept_;
}

}  // namespace topomask
