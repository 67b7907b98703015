#include "sparse/ops.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace topomask {

at::Tensor sddmm(const at::Tensor& a, const at::Tensor& b, const SparsePattern& pattern, int64_t value_heads) {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, c10::SymInt);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("topomask::sddmm", "").typed<Signature>();
  return op.call(a, b, pattern.offsets(), pattern.columns(), value_heads);
}

}  // namespace topomask
