#include "attention/mask_strips.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "attention/route_slices.h"
#include "masks/interface/mask_answers.h"

namespace topomask {
namespace {

/// M·X has kernels for multiples of this many columns.
constexpr int64_t kRowUnit = 16;

std::vector<Strip> strips_of(int64_t nodes, int64_t rows) {
  std::vector<Strip> strips;
  for (int64_t first = 0; first < nodes;) {
    // A single last row joins the strip before it: torch sums a single row in parts, one for each thread.
    const int64_t left = nodes - first, count = left <= rows + 1 ? left : rows;
    strips.push_back({std::ssize(strips), first, count});
    first += count;
  }
  return strips;
}

}  // namespace

int64_t strip_values(bool on_cuda) {
  // On the CPU few enough for the allocator to hand out the same memory again; on a GPU enough to fill it.
  return int64_t{1} << (on_cuda ? 26 : 20);
}

int64_t strip_rows(int64_t nodes, int64_t heads, bool on_cuda) {
  const int64_t rows = strip_values(on_cuda) / std::max<int64_t>(1, nodes * heads);
  return std::max(kRowUnit, rows / kRowUnit * kRowUnit);
}

bool strips_from_entries(const MaskCounts& counts, int64_t nodes) {
  if (!counts.sparse_entries) return false;
  constexpr double kMostFilled = 0.125;
  const auto n = static_cast<double>(nodes);
  // Where M·x goes over the entries, they are there already, and a product for each row would visit all of them.
  return *counts.sparse_entries <= kMostFilled * n * n || *counts.sparse_entries <= counts.operator_work;
}

MaskStrips::MaskStrips(MaskPtr mask, const at::TensorOptions& like)
    : mask_(std::move(mask)),
      like_(like.requires_grad(false)),
      strips_(strips_of(mask_->size(), strip_rows(mask_->size(), mask_->heads(), like.device().is_cuda()))),
      sources_(mask_->parameters()) {
  if (!strips_from_entries(mask_->counts(), mask_->size())) return;
  const auto matrix = mask_->sparse();
  if (!matrix) return;
  pattern_ = matrix->pattern;
  sources_ = {matrix->values_by_head()};
  at::Tensor starts = at::empty({std::ssize(strips_) + 1}, at::kLong);
  for (const Strip& strip : strips_) starts.mutable_data_ptr<int64_t>()[strip.index] = strip.first;
  starts.mutable_data_ptr<int64_t>()[strips_.size()] = mask_->size();
  const at::Tensor entries = pattern_->offsets().index_select(0, starts.to(pattern_->device())).to(at::kCPU);
  first_entry_.assign(entries.const_data_ptr<int64_t>(), entries.const_data_ptr<int64_t>() + entries.numel());
}

at::Tensor MaskStrips::units(const Strip& strip) const {
  at::Tensor units = at::zeros({1, mask_->heads(), mask_->size(), strip.count}, like_);
  units.narrow(2, strip.first, strip.count).diagonal(0, 2, 3).fill_(1);
  return units;
}

at::Tensor MaskStrips::places(const Strip& strip) const {
  const int64_t first = first_entry_[strip.index], entries = first_entry_[strip.index + 1] - first;
  const at::Tensor& offsets = pattern_->offsets();
  const at::Tensor starts = at::arange(strip.count, offsets.options()) * mask_->size();
  return starts.repeat_interleave(offsets.narrow(0, strip.first, strip.count + 1).diff(), 0, entries) +
         pattern_->columns().narrow(0, first, entries);
}

at::Tensor MaskStrips::rows(const std::vector<at::Tensor>& sources, const Strip& strip) const {
  const at::NoGradGuard no_grad;
  if (!pattern_) {
    return MaskAnswers::apply_transposed(*mask_, units(strip)).select(0, 0).mT().contiguous();
  }
  const at::Tensor values = sources[0].detach();
  const int64_t first = first_entry_[strip.index], entries = first_entry_[strip.index + 1] - first;
  at::Tensor rows = at::zeros({values.size(0), strip.count * mask_->size()}, like_);
  rows.index_copy_(1, places(strip), values.narrow(1, first, entries));
  return rows.view({values.size(0), strip.count, mask_->size()});
}

void MaskStrips::add_gradients(const std::vector<at::Tensor>& sources, const Strip& strip, const at::Tensor& grad,
                               std::vector<at::Tensor>& totals) const {
  const at::NoGradGuard no_grad;
  if (pattern_) {
    if (!totals[0].defined()) totals[0] = at::empty_like(sources[0]);  // every entry is in one strip
    const int64_t first = first_entry_[strip.index], entries = first_entry_[strip.index + 1] - first;
    totals[0].narrow(1, first, entries).copy_(grad.flatten(1).index_select(1, places(strip)));
    return;
  }
  // ⟨grad, rows⟩ = ⟨e, M·gradᵀ⟩.
  const auto gradients = MaskAnswers::parameter_gradients(*mask_, grad.mT().unsqueeze(0).contiguous(), units(strip));
  for (size_t p = 0; p < totals.size(); ++p) {
    totals[p] = totals[p].defined() ? totals[p] + gradients[p] : gradients[p];
  }
}

}  // namespace topomask
