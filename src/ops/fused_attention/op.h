#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/internal_api.h"
#include "ops/fused_attention/tile_mask.h"
#include "topomask/mask_tiles.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace ops::fused_attention {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

struct Options {
  Weighting weighting = Weighting::kernel;
  double scale = 1;          ///< of the scores; softmax alone
  double eps = 1e-6;         ///< D is kept this far from zero, with its sign; not where the mask is additive
  bool nodes_first = false;  ///< out is [B, N, H, d] in memory: the heads of a node side by side
};

/// Attention with the weights W_ij of `Weighting`, tile by tile: out = W V / D for q, k [B, H, N, m] and v [B, H, N,
/// d], without an N×N matrix forward or backward. Returns out in the dtype of v, D before its clamp [B, H, N], and the
/// largest exponents [B, H, N] (softmax; empty otherwise). Differentiable once, in q, k, v and the tiles' values. The
/// operator `fused_attention`.
Three forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskTiles& mask,
              const Options& options);

/// Gradients of q, k, v, mask.values and mask.right, the last two empty where there are none or they are not wanted.
/// Sums come in an order that does not depend on the number of threads.
Five backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
              const MaskTiles& mask, const Options& options, const Three& forward, bool want_mask);

/// A problem, as far as kernels depend on it.
struct Problem {
  at::ScalarType dtype;
  int64_t features, value_dim;
  TileKind kind;
  Weighting weighting = Weighting::kernel;
  at::DeviceType device = at::kCPU;
  int64_t rank = 0;  ///< of factors
};

/// The widest rows of the kernels on a GPU, and those of the faster ones, which take bfloat16 and no factors.
inline constexpr int64_t kMostCudaWidth = 256, kMostNativeWidth = 128;

/// Whether there is a kernel for it, of the dtypes that is_node_dtype accepts: on the CPU for all; on a GPU for all but
/// float64, and rows of at most kMostCudaWidth values. There float32 is exact unless torch allows TF32 for products,
/// and float16, wider rows and factors run in TF32 on copies in float32, but for factors with takes_columns.
bool supports(const Problem& problem);

/// Whether the kernels for bfloat16 take a problem that is supported on a GPU; the others run in float32.
bool is_native(const Problem& problem);

/// Whether factors added to softmax in bfloat16 on a GPU become columns of q and k (factor_columns.h), with
/// which the kernels for bfloat16 take them: features + 3·rank of at most kMostNativeWidth.
bool takes_columns(const Problem& problem);

/// The side of the tiles by which the gradient of a mask's values is made on a GPU.
int64_t gradient_tile(const Problem& problem, int64_t nodes);

/// The most nodes for which the gradient of a mask's values can be made: of offsets on a GPU the tiles are listed
/// (tile_groups.h), at most kMostListedBlocks along an axis. Elsewhere there is no limit.
int64_t most_learned_nodes(const Problem& problem);

/// What the operator asks of its arguments, on every device.
void check(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskTiles& mask,
           const Options& options);

/// Whether values of that kind are there to be learned.
constexpr bool has_values(TileKind kind) {
  return kind != TileKind::ones && kind != TileKind::causal;
}

}  // namespace ops::fused_attention
}  // namespace topomask
