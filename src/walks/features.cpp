#include <ATen/ATen.h>

#include "core/checks.h"
#include "ops/walk_features/op.h"
#include "topomask/walks.h"

namespace topomask {
namespace {

at::Tensor features(const char* op, const WalkTable& table, const at::Tensor& f, const at::Tensor& loads) {
  TORCH_CHECK(
      f.defined() && (f.dim() == 1 || f.dim() == 2) && f.scalar_type() == table.dtype() && f.device() == table.device(),
      op, ": f must be ", table.dtype(), " as the loads are, [K] or [H, K], on ", table.device(), ", got ",
      describe(f));
  TORCH_CHECK(f.size(-1) <= table.max_hops() + 1, op, ": f must have at most max_hops + 1 = ", table.max_hops() + 1,
              " terms, got ", describe(f));
  const at::Tensor values =
      ops::walk_features::values(f.dim() == 1 ? f.unsqueeze(0) : f, table.hops(), loads, table.feature_offsets(),
                                 1.0 / static_cast<double>(table.walkers()));
  return f.dim() == 1 ? values.squeeze(0) : values;
}

}  // namespace

at::Tensor walk_features(const WalkTable& table, const at::Tensor& f) {
  return features("walk_features", table, f, table.kept_loads());
}

at::Tensor adhoc_features(const WalkTable& table, const at::Tensor& f) {
  return features("adhoc_features", table, f, table.counts().to(table.dtype()));
}

}  // namespace topomask
