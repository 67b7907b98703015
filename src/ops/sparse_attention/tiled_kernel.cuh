#pragma once

#include <algorithm>

#include "core/cuda/clamped.cuh"
#include "core/cuda/launch.cuh"
#include "ops/cuda/entry_stage.cuh"
#include "ops/cuda/row_tile.cuh"
#include "ops/sparse_attention/cuda_kernel.h"
#include "ops/sparse_attention/entry_pair.cuh"
#include "ops/sparse_attention/limits.h"
#include "ops/sparse_attention/slice_place.cuh"

// The kernels behind cuda_kernel.h for bfloat16 where the tiles of a pattern are known: sixteen rows a warp,
// on the tensor cores. Scores and sums are float32; weights are rounded to bfloat16 where they multiply rows of nodes.
// (float16 could overflow there.) A node that is not finite makes NaN of the sixteen rows of every tile that reads it,
// not only of those with an entry for it.

namespace topomask::cuda {

/// The slice and tile of a block.
struct TilePlace {
  int64_t slice, tile, value_head;
  __device__ __forceinline__ TilePlace(int64_t rows, int64_t value_heads) {
    const auto tiles = static_cast<unsigned>(RowTiles::count(rows));
    const unsigned whole = blockIdx.x / tiles;
    slice = whole;
    tile = blockIdx.x - whole * tiles;
    value_head = whole % static_cast<unsigned>(value_heads);
  }
};

/// A row is spread over the four lanes that share g.
__device__ __forceinline__ float sum_of_four(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ __forceinline__ float max_of_four(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/// Blocks of a multiprocessor that registers and shared memory leave room for, as measured at 64 values a row.
template <int kWidth>
struct Tiled {
  static constexpr bool kWide = kWidth > 64;
  static constexpr int kForwardBlocks = kWide ? 1 : 16, kRowsBlocks = kWide ? 1 : 12, kColumnsBlocks = kWide ? 1 : 14;
};

/// Nothing to read before a value.
struct NoKey {};

template <class T, int kWidth, bool kSoftmax>
__global__ void __launch_bounds__(32, Tiled<kWidth>::kForwardBlocks)
    tiled_forward_kernel(const AttentionArgs<T, float> a) {
  using Tile = RowTile<T, kWidth>;
  using Rows = typename Tile::Rows;
  __shared__ typename Tile::Memory memory;
  const TilePlace place(a.rows, a.value_heads);
  const Tile tile(memory, {a.offsets, a.tiles, a.rows, a.longest_short_row}, place.tile);
  uint32_t q[kWidth / 16][4];
  const SlicePlace slice(place.slice, a.heads);
  tile.load_own(q, slice.nodes(a.q, a.q_strides, a.features));
  const float* values = kept(a.values + place.value_head * a.entries + tile.first_entry);
  float total[kWidth / 8][4] = {};
  float denominator[2] = {};
  constexpr float kNone = -INFINITY;
  float max[2] = {kNone, kNone};

  tile.for_chunks(
      slice.nodes(a.k, a.k_strides, a.features), slice.nodes(a.v, a.v_strides, a.value_dim),
      [](int) { return NoKey{}; }, [&](int entry, NoKey) { return values[entry]; }, [] {},
      [&](const Cells&, const float(&value)[8], const Rows& keys, const Rows& nodes, bool) {
        float scores[2][4] = {};
        multiply_rows<T, kWidth>(scores, q, keys);
        if constexpr (kSoftmax) {
          float higher[2] = {max[0], max[1]};
#pragma unroll
          for (int c = 0; c < 8; ++c) {
            float& score = scores[c / 4][c % 4];
            score = value[c] != 0 ? score * a.scale : kNone;
            higher[Cells::row(c)] = fmaxf(higher[Cells::row(c)], score);
          }
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            higher[r] = max_of_four(higher[r]);
            const float fade = max[r] == kNone ? 0.f : __expf(max[r] - higher[r]);
            denominator[r] *= fade;
#pragma unroll
            for (int block = 0; block < kWidth / 8; ++block) {
              total[block][2 * r] *= fade;
              total[block][2 * r + 1] *= fade;
            }
            max[r] = higher[r];
          }
        }
#pragma unroll
        for (int c = 0; c < 8; ++c) {
          float& score = scores[c / 4][c % 4];
          if constexpr (kSoftmax) {
            score = value[c] != 0 ? value[c] * __expf(score - max[Cells::row(c)]) : 0.f;
          } else {
            score *= value[c];
          }
          denominator[Cells::row(c)] += score;
        }
        add_weighted<T, kWidth>(total, rounded<T>(scores), nodes);
      });

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    denominator[r] = sum_of_four(denominator[r]);
    if (tile.t != 0 || !tile.has(tile.g + 8 * r)) continue;
    const int64_t node = place.slice * a.rows + tile.first_row + tile.g + 8 * r;
    a.denominator[node] = denominator[r];
    if constexpr (kSoftmax) a.row_max[node] = max[r] == kNone ? 0.f : max[r];
  }
  tile.store_own(slice.of(a.out, a.out_strides), a.out_strides.row, a.value_dim, total,
                 1.f / clamped(denominator[0], a.eps), 1.f / clamped(denominator[1], a.eps));
}

/// The pass over rows, as in cuda_kernel.cuh.
template <class T, int kWidth, bool kSoftmax>
__global__ void __launch_bounds__(32, Tiled<kWidth>::kRowsBlocks)
    tiled_rows_kernel(const AttentionBackwardArgs<T, float> b) {
  using Tile = RowTile<T, kWidth>;
  using Rows = typename Tile::Rows;
  __shared__ typename Tile::Memory memory;
  __shared__ EntryStage::Memory stage_memory;
  const AttentionArgs<T, float>& a = b.forward;
  const TilePlace strand(a.rows, a.value_heads);
  const Tile tile(memory, {a.offsets, a.tiles, a.rows, a.longest_short_row}, strand.tile);
  const float* values = kept(a.values + strand.value_head * a.entries + tile.first_entry);
  const bool wants_values = b.grad_values != nullptr;
  // Not read or written where they are not wanted; a choice here would make every access a generic one.
  float* grad_values = kept(b.grad_values + strand.slice * a.entries + tile.first_entry);
  for (int64_t slice = strand.slice; slice < a.slices; slice += b.strands) {
    const int64_t first_node = slice * a.rows;
    const SlicePlace at(slice, a.heads);
    auto* pairs = kept(pairs_of(b) + slice * a.entries + tile.first_entry);
    uint32_t q[kWidth / 16][4], grad[kWidth / 16][4];
    tile.load_own(q, at.nodes(a.q, a.q_strides, a.features));
    tile.load_own(grad, at.nodes(b.grad_out, b.grad_strides, a.value_dim));
    float inverse[2], mean[2], max[2];
    const auto look_at_rows = [&] {
      uint32_t out[kWidth / 16][4];
      tile.load_own(out, at.nodes(a.out, a.out_strides, a.value_dim));
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float product = 0;
#pragma unroll
        for (int packet = 0; packet < kWidth / 8; ++packet) {
          const int w = packet % 2 * 2 + r;
          if (packet * 8 < a.value_dim) product += dot_of_two<T>(grad[packet / 2][w], out[packet / 2][w]);
        }
        product = sum_of_four(product);
        const bool valid = tile.g + 8 * r < tile.rows;
        const int64_t node = first_node + tile.first_row + tile.g + 8 * r;
        const float denominator = valid ? a.denominator[node] : 1.f;
        inverse[r] = 1.f / clamped(denominator, a.eps);
        mean[r] = fabsf(denominator) < a.eps ? 0.f : product;  // a clamped D does not move with A
        max[r] = kSoftmax && valid ? a.row_max[node] : 0.f;
      }
    };
    float grad_q[kWidth / 8][4] = {};
    EntryStage stage(stage_memory, tile.starts, tile.entries);
    const auto write = [&, adds = slice >= b.strands](int entry, uint32_t pair, uint32_t grad_value) {
      pairs[entry].word = pair;
      if (!wants_values) return;
      float sum = __uint_as_float(grad_value);
      if (adds) sum += grad_values[entry];
      grad_values[entry] = sum;
    };

    tile.for_chunks(
        at.nodes(a.k, a.k_strides, a.features), at.nodes(a.v, a.v_strides, a.value_dim), [](int) { return NoKey{}; },
        [&](int entry, NoKey) { return values[entry]; }, look_at_rows,
        [&](const Cells& cells, const float(&value)[8], const Rows& keys, const Rows& nodes, bool last) {
          float scores[2][4] = {}, products[2][4] = {}, grad_scores[2][4];
          multiply_rows<T, kWidth>(scores, q, keys);
          multiply_rows<T, kWidth>(products, grad, nodes);
#pragma unroll
          for (int c = 0; c < 8; ++c) {
            const int r = Cells::row(c);
            float score = scores[c / 4][c % 4];
            if constexpr (kSoftmax) score = __expf(limited(score * a.scale - max[r]));
            const float grad_weight = (products[c / 4][c % 4] - mean[r]) * inverse[r];
            float& grad_score = grad_scores[c / 4][c % 4];
            grad_score = grad_weight * value[c];
            if constexpr (kSoftmax) grad_score = grad_score != 0 ? grad_score * score * a.scale : 0.f;
            const EntryPair<T, float> pair(value[c] * score * inverse[r], grad_score);
            stage.put(cells, c, pair.word, __float_as_uint(grad_weight * score));
          }
          add_weighted<T, kWidth>(grad_q, rounded<T>(grad_scores), keys);
          stage.end_chunk(cells, last, write);
        });
    tile.store_own(b.grad_q + first_node * a.features, a.features, a.features, grad_q);
    __syncwarp();
  }
}

/// The pass over columns, as in cuda_kernel.cuh.
template <class T, int kWidth>
__global__ void __launch_bounds__(32, Tiled<kWidth>::kColumnsBlocks)
    tiled_columns_kernel(const AttentionBackwardArgs<T, float> b) {
  using Tile = RowTile<T, kWidth>;
  using Rows = typename Tile::Rows;
  __shared__ typename Tile::Memory memory;
  const AttentionArgs<T, float>& a = b.forward;
  const TilePlace place(a.cols, a.value_heads);
  const Tile tile(memory, {b.t_offsets, b.t_tiles, a.cols, b.longest_short_column}, place.tile);
  const SlicePlace slice(place.slice, a.heads);
  const auto* pairs = kept(pairs_of(b) + place.slice * a.entries);
  // The lower half of each is all there is: fewer than 2³² entries.
  const auto* in_row_order = kept(reinterpret_cast<const uint32_t*>(b.t_index + tile.first_entry));
  float grad_k[kWidth / 8][4] = {}, grad_v[kWidth / 8][4] = {};

  tile.for_chunks(
      slice.nodes(a.q, a.q_strides, a.features), slice.nodes(b.grad_out, b.grad_strides, a.value_dim),
      [&](int entry) { return in_row_order[2 * entry]; }, [&](int, uint32_t entry) { return pairs[entry].word; }, [] {},
      [&](const Cells&, const uint32_t(&pair)[8], const Rows& queries, const Rows& grads, bool) {
        LeftOperand grad_scores, weights;
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          weights.words[w] = __byte_perm(pair[2 * w], pair[2 * w + 1], 0x5410);
          grad_scores.words[w] = __byte_perm(pair[2 * w], pair[2 * w + 1], 0x7632);
        }
        add_weighted<T, kWidth>(grad_k, grad_scores, queries);
        add_weighted<T, kWidth>(grad_v, weights, grads);
      });
  tile.store_own(b.grad_k + place.slice * a.cols * a.features, a.features, a.features, grad_k);
  tile.store_own(b.grad_v + place.slice * a.cols * a.value_dim, a.value_dim, a.value_dim, grad_v);
}

/// f(width), compile-time, for the narrowest that holds `width` values.
template <class F>
void with_tile_width(int width, const F& f) {
  if (width <= 32) return f(Constant<32>{});
  if (width <= 64) return f(Constant<64>{});
  f(Constant<ops::sparse_attention::kMaxTiledWidth>{});
}

inline unsigned tile_blocks(int64_t rows, int64_t slices) {
  return static_cast<unsigned>(RowTiles::count(rows) * slices);
}

template <class T>
void tiled_attention(const AttentionArgs<T, float>& args, cudaStream_t stream) {
  with_tile_width(std::max(args.features, args.value_dim), [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    void (*kernel)(AttentionArgs<T, float>) = tiled_forward_kernel<T, kWidth, false>;
    if (args.row_max) kernel = tiled_forward_kernel<T, kWidth, true>;
    kernel<<<tile_blocks(args.rows, args.slices), 32, 0, stream>>>(args);
  });
}

template <class T>
void tiled_rows(const AttentionBackwardArgs<T, float>& args, cudaStream_t stream) {
  const AttentionArgs<T, float>& a = args.forward;
  with_tile_width(std::max(a.features, a.value_dim), [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    void (*kernel)(AttentionBackwardArgs<T, float>) = tiled_rows_kernel<T, kWidth, false>;
    if (a.row_max) kernel = tiled_rows_kernel<T, kWidth, true>;
    kernel<<<tile_blocks(a.rows, args.strands), 32, 0, stream>>>(args);
  });
}

template <class T>
void tiled_columns(const AttentionBackwardArgs<T, float>& args, cudaStream_t stream) {
  const AttentionArgs<T, float>& a = args.forward;
  with_tile_width(std::max(a.features, a.value_dim), [&](auto width) {
    tiled_columns_kernel<T, decltype(width)::value><<<tile_blocks(a.cols, a.slices), 32, 0, stream>>>(args);
  });
}

}  // namespace topomask::cuda
