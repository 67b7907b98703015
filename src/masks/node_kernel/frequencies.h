#pragma once

#include "topomask/walks.h"

namespace topomask {

/// λ as the masks keep it: checked, or the constant 1 where undefined. Refuses, with an error that begins with `op`, a
/// table whose walkers are not counted.
at::Tensor checked_discount(const char* op, const WalkTable& walks, const at::Tensor& discount);

/// F/n from a checked λ, [entries] with one head, [H, entries] with more; at least 1 on the diagonal. λ may be learned,
/// so that its sign is checked again. Differentiable.
at::Tensor mean_frequencies(const char* op, const WalkTable& walks, const at::Tensor& discount);

/// The row of each entry, int64 [entries].
at::Tensor entry_rows(const SparsePattern& pattern);

/// values [entries] or [H, entries], each divided by the number of its row in `divisors` [N] or [H, N]. Differentiable.
at::Tensor divide_rows(const at::Tensor& values, const at::Tensor& divisors, const at::Tensor& rows);

}  // namespace topomask
