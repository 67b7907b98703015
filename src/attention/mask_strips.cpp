#include "attention/mask_strips.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "attention/route_slices.h"
#include "masks/interface/mask_answers.h"
#include "sparse/dense_rows.h"

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

StripSource strip_source(const MaskCounts& counts, int64_t nodes, int64_t heads, double value_bytes, double room) {
  if (!counts.sparse_entries) return {};
  constexpr double kMostFilled = 0.125;
  const double entries = *counts.sparse_entries, n = static_cast<double>(nodes);
  // Where M·x goes over the entries, they are there already, and a product for each row would visit all of them.
  if (entries <= counts.operator_work) return {.entries = true};
  const double bytes = entries * (static_cast<double>(heads) * value_bytes + sizeof(int32_t));
  return entries <= kMostFilled * n * n && bytes <= room ? StripSource{true, bytes} : StripSource{};
}

MaskStrips::MaskStrips(MaskPtr mask, const at::TensorOptions& like, double room)
    : mask_(std::move(mask)),
      like_(like.requires_grad(false)),
      strips_(strips_of(mask_->size(), strip_rows(mask_->size(), mask_->heads(), like.device().is_cuda()))),
      sources_(mask_->parameters()) {
  const auto value_bytes = static_cast<double>(like.dtype().itemsize());
  if (!strip_source(mask_->counts(), mask_->size(), mask_->heads(), value_bytes, room).entries) return;
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

at::Tensor MaskStrips::places(const Strip& strip) const {
  const int64_t first = first_entry_[strip.index];
  return places_in_rows(*pattern_, strip.first, strip.count, first, first_entry_[strip.index + 1] - first);
}

at::Tensor MaskStrips::rows(const std::vector<at::Tensor>& sources, const Strip& strip) const {
  const at::NoGradGuard no_grad;
  if (!pattern_) return MaskAnswers::rows(*mask_, strip.first, strip.count, like_);
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
  const at::Tensor units = unit_columns(*mask_, strip.first, strip.count, like_);
  const auto gradients = MaskAnswers::parameter_gradients(*mask_, grad.mT().unsqueeze(0).contiguous(), units);
  for (size_t p = 0; p < totals.size(); ++p) {
    totals[p] = totals[p].defined() ? totals[p] + gradients[p] : gradients[p];
  }
}

}  // namespace topomask
