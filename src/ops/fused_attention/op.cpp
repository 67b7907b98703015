#include "ops/fused_attention/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>

#include "core/checks.h"
#include "ops/call.h"
#include "ops/fused_attention/arguments.h"
#include "ops/fused_attention/factor_columns.h"
#include "ops/fused_attention/tile_groups.h"
#include "ops/row_layout.h"

namespace topomask::ops::fused_attention {

using at::Tensor;

namespace {

void check_values(const Tensor& q, const MaskTiles& mask) {
  const int64_t heads = q.size(1), nodes = q.size(2) - mask.globals;
  const auto is_value = [&](const Tensor& x, int64_t dims) {
    return x.defined() && x.dim() == dims && (x.size(0) == 1 || (x.size(0) == heads && heads > 0)) &&
           x.device() == q.device() && x.scalar_type() == accumulation_type(q.scalar_type());
  };
  const char* shape = mask.kind == TileKind::matrix    ? "[1 or H, n, n]"
                      : mask.kind == TileKind::factors ? "[1 or H, n, r]"
                                                       : "[1 or H, K]";
  const bool square = mask.kind == TileKind::matrix, factors = mask.kind == TileKind::factors;
  const bool right_shape =
      is_value(mask.values, square || factors ? 3 : 2) && (!(square || factors) || mask.values.size(1) == nodes) &&
      (!square || mask.values.size(2) == nodes) && (square || factors || nodes == 0 || mask.values.size(1) > 0);
  TORCH_CHECK(right_shape, "fused_attention: values must be ", accumulation_type(q.scalar_type()), " ", shape,
              " for n = ", nodes, " and q ", describe(q), ", got ", describe(mask.values));
  TORCH_CHECK(!factors || (is_value(mask.right, 3) && mask.right.sizes() == mask.values.sizes()),
              "fused_attention: right must be like values, ", describe(mask.values), ", got ", describe(mask.right));
}

void check_index(const Tensor& q, const MaskTiles& mask) {
  const int64_t nodes = q.size(2) - mask.globals;
  const bool codes = mask.kind == TileKind::offsets;
  if (!codes && mask.kind != TileKind::places) return;
  const Tensor& index = mask.index;
  const bool fits = index.defined() && index.device() == q.device() &&
                    index.scalar_type() == (codes ? at::kInt : at::kShort) && index.dim() == (codes ? 1 : 2) &&
                    index.size(0) == nodes && (codes || index.size(1) == nodes);
  TORCH_CHECK(fits, "fused_attention: index must be ", codes ? "Int [n]" : "Short [n, n]", " for n = ", nodes, ", got ",
              describe(index));
}

Three call_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& right,
                   const Tensor& index, int64_t kind, int64_t shift, int64_t globals, int64_t weighting, double scale,
                   double eps, bool nodes_first) {
  return call<"fused_attention", ForwardSignature>(q, k, v, values, right, index, kind, shift, globals, weighting,
                                                   scale, eps, nodes_first);
}

}  // namespace

bool supports(const Problem& p) {
  if (!is_node_dtype(p.dtype, p.device)) return false;
  if (p.device == at::kCPU) return true;
  return p.dtype != at::kDouble && p.features >= 1 && p.features <= kMostCudaWidth && p.value_dim >= 1 &&
         p.value_dim <= kMostCudaWidth;
}

bool is_native(const Problem& p) {
  return supports(p) && p.dtype == at::kBFloat16 && p.features <= kMostNativeWidth && p.value_dim <= kMostNativeWidth &&
         p.kind != TileKind::factors;
}

bool takes_columns(const Problem& p) {
  return supports(p) && p.device == at::kCUDA && p.dtype == at::kBFloat16 && p.kind == TileKind::factors &&
         p.weighting == Weighting::additive && p.rank > 0 &&
         p.features + kColumnsOfFactor * p.rank <= kMostNativeWidth && p.value_dim <= kMostNativeWidth;
}

int64_t gradient_tile(const Problem& p, int64_t nodes) {
  const bool table = p.kind == TileKind::places || p.kind == TileKind::hamming;
  return is_native(p) && nodes > 1024 && p.features <= 64 && p.value_dim <= 64 && !table ? 128 : 64;
}

int64_t most_learned_nodes(const Problem& p) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  return p.device == at::kCPU || p.kind != TileKind::offsets ? kAny : kMostListedBlocks * gradient_tile(p, kAny);
}

void check(const Tensor& q, const Tensor& k, const Tensor& v, const MaskTiles& mask, const Options& options) {
  TORCH_CHECK(q.dim() == 4 && is_node_dtype(q.scalar_type(), q.device().type()),
              "fused_attention: q must be [B, H, N, m] of ", node_dtypes(q.device().type()), ", got ", describe(q));
  TORCH_CHECK(k.sizes() == q.sizes() && k.scalar_type() == q.scalar_type() && k.device() == q.device(),
              "fused_attention: k must be like q, ", describe(q), ", got ", describe(k));
  TORCH_CHECK(v.dim() == 4 && v.sizes().slice(0, 3) == q.sizes().slice(0, 3) && v.scalar_type() == q.scalar_type() &&
                  v.device() == q.device(),
              "fused_attention: v must be like q, ", describe(q), ", but for its last dimension, got ", describe(v));
  const auto kind = static_cast<int64_t>(mask.kind), weighting = static_cast<int64_t>(options.weighting);
  TORCH_CHECK(kind >= 0 && kind <= static_cast<int64_t>(TileKind::factors),
              "fused_attention: kind must be in [0, 6], got ", kind);
  TORCH_CHECK(weighting >= 0 && weighting <= static_cast<int64_t>(Weighting::multiplicative),
              "fused_attention: weighting must be in [0, 2], got ", weighting);
  TORCH_CHECK(mask.globals >= 0 && mask.globals <= q.size(2),
              "fused_attention: globals must be in [0, N], N = ", q.size(2), ", got ", mask.globals);
  TORCH_CHECK(options.eps > 0, "fused_attention: eps must be > 0, got ", options.eps);
  check_finite("fused_attention", "eps", options.eps);
  check_finite("fused_attention", "scale", options.scale);
  TORCH_CHECK(!q.is_cuda() || mask.kind != TileKind::factors || mask.shift == 0,
              "fused_attention: shift must be 0 for factors on a GPU, got ", mask.shift);
  if (has_values(mask.kind)) check_values(q, mask);
  check_index(q, mask);
}

Three forward(const Tensor& q, const Tensor& k, const Tensor& v, const MaskTiles& mask, const Options& options) {
  const Arguments a(q, mask, options);
  return call_forward(q, k, v, a.values, a.right, a.index, a.kind, a.shift, a.globals, a.weighting, a.scale, a.eps,
                      a.nodes_first);
}

Five backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const MaskTiles& mask,
              const Options& options, const Three& made, bool want_mask) {
  const Arguments a(q, mask, options);
  return call<"fused_attention_backward", BackwardSignature>(
      grad, q, k, v, a.values, a.right, a.index, std::get<0>(made), std::get<1>(made), std::get<2>(made), a.kind,
      a.shift, a.globals, a.weighting, a.scale, a.eps, want_mask);
}

namespace {

Three forward_meta(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, const Tensor&, const Tensor&,
                   int64_t, int64_t, int64_t, int64_t weighting, double, double, bool nodes_first) {
  const auto sums = q.options().dtype(accumulation_type(q.scalar_type()));
  const std::vector<c10::SymInt> rows{q.sym_size(0), q.sym_size(1), q.sym_size(2)};
  const bool softmax = weighting != static_cast<int64_t>(Weighting::kernel);
  return {empty_rows_symint(v.sym_sizes(), v.options(), nodes_first), at::empty_symint(rows, sums),
          softmax ? at::empty_symint(rows, sums) : at::empty({0}, sums)};
}

Five backward_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                   const Tensor& right, const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t,
                   int64_t, int64_t, double, double, bool want_mask) {
  const auto like = [](const Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); };
  const auto of_mask = [&](const Tensor& x) { return want_mask ? like(x) : at::empty({0}, x.options()); };
  return {like(q), like(k), like(v), of_mask(values), of_mask(right)};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "fused_attention(Tensor q, Tensor k, Tensor v, Tensor values, Tensor right, Tensor index, int kind, int shift, "
      "int globals, int weighting, float scale, float eps, bool nodes_first=False) -> (Tensor, Tensor, Tensor)");
  m.def(
      "fused_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor values, Tensor right, Tensor index, "
      "Tensor out, Tensor denominator, Tensor largest, int kind, int shift, int globals, int weighting, float scale, "
      "float eps, bool want_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("fused_attention", forward_meta);
  m.impl("fused_attention_backward", backward_meta);
}

}  // namespace topomask::ops::fused_attention
