#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "core/checks.h"
#include "nn/graph_models/blocks.h"
#include "topomask/nn/graph_mask.h"
#include "topomask/sparse.h"

namespace topomask {
namespace {

constexpr int64_t kTile = 32;  // nodes

/// The nodes of each graph in tiles of their own, the last one padded.
struct BlockTiles {
  int64_t count = 0;
  at::Tensor slots;        // int64 [N]: where a node stands in the tiles
  PatternPtr to_graphs;    // [graphs, tiles]: which tiles a graph has
  PatternPtr from_graphs;  // [tiles, graphs]

  BlockTiles(const at::Tensor& membership, int64_t graphs) {
    const auto options = membership.options();
    const at::Tensor places = at::arange(membership.size(0), options);
    const at::Tensor starts = at::searchsorted(membership, at::arange(graphs + 1, options));
    const at::Tensor tiles = (starts.diff() + (kTile - 1)).floor_divide(kTile), first = offsets_of(tiles);
    count = first[-1].item<int64_t>();
    slots = places + (first * kTile - starts).index_select(0, membership);
    const at::Tensor all = at::arange(count, options),
                     owner = at::repeat_interleave(at::arange(graphs, options), tiles);
    to_graphs = std::make_shared<SparsePattern>(graphs, count, first, all.to(at::kInt));
    from_graphs = std::make_shared<SparsePattern>(count, graphs, at::arange(count + 1, options), owner.to(at::kInt));
  }

  /// [H, N, C] → [H, tiles, kTile, C], zeros in the padding.
  at::Tensor spread(const at::Tensor& x) const {
    return at::zeros({x.size(0), count * kTile, x.size(2)}, x.options())
        .index_copy(1, slots, x)
        .view({x.size(0), count, kTile, x.size(2)});
  }
};

at::Tensor ones_over(const PatternPtr& pattern, const at::Tensor& like) {
  return at::ones({pattern->entries()}, like.options().requires_grad(false));
}

/// At least eps away from 0, with its sign.
at::Tensor kept_from_zero(const at::Tensor& x, double eps) {
  return at::where(x < 0, x.clamp_max(-eps), x.clamp_min(eps));
}

}  // namespace

at::Tensor block_linear_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const at::Tensor& membership, int64_t graphs, double eps) {
  constexpr const char* kOp = "block_linear_attention";
  TORCH_CHECK(
      q.dim() == 3 && k.sizes() == q.sizes() && v.dim() == 3 && v.size(0) == q.size(0) && v.size(1) == q.size(1), kOp,
      ": q and k must be [H, N, m] and v [H, N, d], got ", describe(q), ", ", describe(k), " and ", describe(v));
  TORCH_CHECK(membership.defined() && membership.scalar_type() == at::kLong && membership.dim() == 1 &&
                  membership.size(0) == q.size(1),
              kOp, ": membership must be int64 [N = ", q.size(1), "], got ", describe(membership));
  const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);  // sums stay in float32
  const at::ScalarType type = accumulation_type(q.scalar_type());
  const int64_t heads = q.size(0), features = q.size(2), dim = v.size(2);
  if (q.size(1) == 0) return at::zeros_like(v);
  const BlockTiles tiles(membership, graphs);
  const at::Tensor values = at::cat({v.to(type), at::ones({heads, v.size(1), 1}, v.options().dtype(type))}, 2);
  const at::Tensor sums = at::matmul(tiles.spread(k.to(type)).mT(), tiles.spread(values)).flatten(2);  // [H, T, m(d+1)]
  const at::Tensor totals = matmul(SparseMatrix{tiles.to_graphs, ones_over(tiles.to_graphs, sums)}, sums);
  const at::Tensor shared = matmul(SparseMatrix{tiles.from_graphs, ones_over(tiles.from_graphs, sums)}, totals);
  const at::Tensor out =
      at::matmul(tiles.spread(q.to(type)), shared.view({heads, tiles.count, features, dim + 1})).flatten(1, 2);
  const at::Tensor rows = out.index_select(1, tiles.slots);
  return (rows.slice(2, 0, dim) / kept_from_zero(rows.slice(2, dim), eps)).to(v.scalar_type());
}

}  // namespace topomask
