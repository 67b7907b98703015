#include "masks/node_kernel/frequencies.h"

#include <ATen/ATen.h>

#include "core/checks.h"
#include "masks/grf/walk_function.h"
#include "topomask/node_kernel.h"

namespace topomask {
namespace {

/// On the CPU only: reading λ from a GPU would wait for it.
void check_values(const char* op, const at::Tensor& discount) {
  if (!discount.is_cpu()) return;
  const at::Tensor bad = (discount.isfinite() & (discount >= 0)).logical_not();
  TORCH_CHECK(!bad.any().item<bool>(), op, ": discount must be finite and >= 0, got ",
              discount.detach().masked_select(bad)[0].item<double>());
}

}  // namespace

at::Tensor checked_discount(const char* op, const WalkTable& walks, const at::Tensor& discount) {
  check_constant_loads(op, walks);
  const at::Tensor& counts = walks.counts();
  TORCH_CHECK(counts.numel() == 0 || counts.min().item<int32_t>() >= 1, op,
              ": walks must count their walkers at every node, got a table with an exact head");
  if (!discount.defined()) return at::ones({}, walks.loads().options());
  TORCH_CHECK(discount.dim() <= 1 && discount.numel() >= 1 && discount.scalar_type() == walks.dtype() &&
                  discount.device() == walks.device(),
              op, ": discount must be ", walks.dtype(), " as the loads of the walks are, [] or [H] on ", walks.device(),
              ", got ", describe(discount));
  check_values(op, discount);
  return discount;
}

at::Tensor mean_frequencies(const char* op, const WalkTable& walks, const at::Tensor& discount) {
  check_values(op, discount);
  // No more powers than there are hops: λ^t of a hop that nobody made could overflow.
  const int64_t terms = walks.hops().numel() == 0 ? 1 : walks.hops().max().item<int16_t>() + 1;
  const at::Tensor heads = discount.numel() == 1 ? discount.reshape({}) : discount;
  return adhoc_features(walks, at::pow(heads.unsqueeze(-1), at::arange(terms, walks.loads().options())));
}

at::Tensor entry_rows(const SparsePattern& pattern) {
  return at::repeat_interleave(at::arange(pattern.rows(), pattern.offsets().options()), pattern.offsets().diff());
}

at::Tensor divide_rows(const at::Tensor& values, const at::Tensor& divisors, const at::Tensor& rows) {
  return values / divisors.gather(-1, rows.expand_as(values));
}

at::Tensor walk_frequencies(const WalkTable& walks, const at::Tensor& discount) {
  constexpr const char* kOp = "walk_frequencies";
  const at::Tensor checked = checked_discount(kOp, walks, discount);
  const at::Tensor frequencies = mean_frequencies(kOp, walks, checked) * walks.walkers();
  return checked.dim() == 1 && frequencies.dim() == 1 ? frequencies.unsqueeze(0) : frequencies;
}

}  // namespace topomask
