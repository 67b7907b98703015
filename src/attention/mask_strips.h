#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "topomask/mask.h"

namespace topomask {

/// Rows first … first+count−1 of M.
struct Strip {
  int64_t index, first, count;
};

/// Rows of any mask, a strip at a time, and the gradients of the mask's parameters from theirs. A strip comes from
/// the entries of the sparse form where M has few and there is room for them, and from Mask::rows otherwise, which
/// takes O(strip) memory.
class MaskStrips {
 public:
  /// `like` has the dtype and the device of the rows. `room`: bytes that the sparse form may take.
  MaskStrips(MaskPtr mask, const at::TensorOptions& like, double room);

  const std::vector<Strip>& strips() const { return strips_; }

  /// What the rows are differentiable in: the values of the sparse form, or the mask's parameters.
  const std::vector<at::Tensor>& sources() const { return sources_; }

  /// [H, count, N], for the values that sources() had and nothing recorded; `sources` are those saved by autograd.
  at::Tensor rows(const std::vector<at::Tensor>& sources, const Strip& strip) const;

  /// Adds ∂⟨grad, rows⟩ of each source to `totals`, which start as undefined tensors.
  void add_gradients(const std::vector<at::Tensor>& sources, const Strip& strip, const at::Tensor& grad,
                     std::vector<at::Tensor>& totals) const;

 private:
  /// Where the entries of the strip are in its count·N values.
  at::Tensor places(const Strip& strip) const;

  MaskPtr mask_;
  at::TensorOptions like_;
  std::vector<Strip> strips_;
  PatternPtr pattern_;                // of the sparse form
  std::vector<int64_t> first_entry_;  // of each strip, and the end
  std::vector<at::Tensor> sources_;
};

}  // namespace topomask
