#pragma once

#include <ATen/core/Tensor.h>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::walk_features {

/// The values of Φ̂ over a walk table, scale·Σ f[h, hop]·load over the triples of each entry: f [H, K], hops int16 and
/// loads [T], the triples of an entry by feature_offsets int64 [entries + 1]; [H, entries]. Differentiable any number
/// of times in f, once in the loads. The operator `walk_features`.
at::Tensor values(const at::Tensor& f, const at::Tensor& hops, const at::Tensor& loads,
                  const at::Tensor& feature_offsets, double scale);

/// The gradient in f, [H, terms]: the operator `walk_features_backward`, linear in grad [H, entries].
at::Tensor backward(const at::Tensor& grad, const at::Tensor& hops, const at::Tensor& loads,
                    const at::Tensor& feature_offsets, c10::SymInt terms, double scale);

}  // namespace ops::walk_features
}  // namespace topomask
