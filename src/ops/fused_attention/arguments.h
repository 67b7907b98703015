#pragma once

#include <ATen/ATen.h>

#include "core/checks.h"
#include "ops/fused_attention/op.h"

// MaskTiles and Options as the plain arguments of the operators, and back.

namespace topomask::ops::fused_attention {

using ForwardSignature = Three(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const at::Tensor&, const at::Tensor&, int64_t, int64_t, int64_t, int64_t, double, double,
                               bool);
using BackwardSignature = Five(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const at::Tensor&, const at::Tensor&, int64_t, int64_t, int64_t, int64_t, double, double,
                               bool);

struct Arguments {
  Arguments(const at::Tensor& q, const MaskTiles& mask, const Options& options)
      : values(mask.values.defined() ? mask.values : none(q, accumulation_type(q.scalar_type()))),
        right(mask.right.defined() ? mask.right : none(q, accumulation_type(q.scalar_type()))),
        index(mask.index.defined() ? mask.index : none(q, at::kInt)),
        kind(static_cast<int64_t>(mask.kind)),
        shift(mask.shift),
        globals(mask.globals),
        weighting(static_cast<int64_t>(options.weighting)),
        scale(options.scale),
        eps(options.eps),
        nodes_first(options.nodes_first) {}

  static at::Tensor none(const at::Tensor& q, at::ScalarType type) { return at::empty({0}, q.options().dtype(type)); }

  at::Tensor values, right, index;
  int64_t kind, shift, globals, weighting;
  double scale, eps;
  bool nodes_first;
};

inline MaskTiles tiles_of(const at::Tensor& values, const at::Tensor& right, const at::Tensor& index, int64_t kind,
                          int64_t shift, int64_t globals) {
  return {static_cast<TileKind>(kind), values, right, index, shift, globals};
}

inline Options options_of(int64_t weighting, double scale, double eps, bool nodes_first = false) {
  return {static_cast<Weighting>(weighting), scale, eps, nodes_first};
}

}  // namespace topomask::ops::fused_attention
