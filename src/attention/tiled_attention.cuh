#pragma once

#include <algorithm>

#include "attention/entry_pair.cuh"
#include "attention/slice_place.cuh"
#include "attention/sparse_attention_cuda.h"
#include "core/cuda/clamped.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/row_tile.cuh"

// The kernels behind sparse_attention_cuda.h for bfloat16: sixteen rows a warp, on the tensor cores. Scores and sums
// are float32; weights are rounded to bfloat16 where they multiply rows of nodes. (float16 could overflow there.) A
// node that is not finite spoils the sixteen rows of every tile that reads it, not only those with an entry for it.

namespace topomask::cuda {

/// The slice and tile of a block.
struct TilePlace {
  int64_t slice, tile, value_head;
  __device__ __forceinline__ TilePlace(int64_t rows, int64_t value_heads) {
    const auto tiles = static_cast<unsigned>((rows + kTileRows - 1) / kTileRows);
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

/// Blocks of a multiprocessor that registers and shared memory leave room for, and listed columns at a time, as
/// measured at 64 values a row.
template <int kWidth>
struct Tiled {
  static constexpr bool kWide = kWidth > 64;
  static constexpr int kForwardBlocks = kWide ? 1 : 14, kRowsBlocks = kWide ? 1 : 12, kColumnsBlocks = kWide ? 1 : 12;
  static constexpr int kForwardSpan = 80, kBackwardSpan = 96;
};

template <class T, int kWidth, bool kSoftmax>
__global__ void __launch_bounds__(32, Tiled<kWidth>::kForwardBlocks)
    tiled_forward_kernel(const AttentionArgs<T, float> a) {
  using Tile = RowTile<T, kWidth, Tiled<kWidth>::kForwardSpan, 1>;
  __shared__ typename Tile::Memory memory;
  const TilePlace place(a.rows, a.value_heads);
  Tile tile(memory, a.offsets, place.tile, a.rows, a.longest_short_row);
  uint32_t q[kWidth / 16][4];
  const SlicePlace slice(place.slice, a.heads);
  tile.load_own(q, slice.nodes(a.q, a.q_strides, a.features));
  const auto k = slice.nodes(a.k, a.k_strides, a.features), v = slice.nodes(a.v, a.v_strides, a.value_dim);
  const float* values = a.values + place.value_head * a.entries + tile.first_entry;
  float total[kWidth / 8][4] = {};
  float denominator[2] = {};
  constexpr float kNone = -INFINITY;
  float max[2] = {kNone, kNone};

  const auto each = [&](int first, const typename Tile::Rows& keys, const typename Tile::Rows& nodes) {
    float mask[2][4], scores[2][4] = {};
    tile.read(mask, 0, first);
    multiply_rows<T, kWidth>(scores, q, keys);
    if constexpr (kSoftmax) {
      float higher[2] = {max[0], max[1]};
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        float& score = scores[e / 4][e % 4];
        score = mask[e / 4][e % 4] != 0 ? score * a.scale : kNone;
        higher[e % 4 / 2] = fmaxf(higher[e % 4 / 2], score);
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        higher[r] = max_of_four(higher[r]);
        const float fade = max[r] == kNone ? 0.f : __expf(max[r] - higher[r]);
        denominator[r] *= fade;
#pragma unroll
        for (int block = 0; block < kWidth / 8; ++block) total[block][2 * r] *= fade, total[block][2 * r + 1] *= fade;
        max[r] = higher[r];
      }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      float& score = scores[e / 4][e % 4];
      if constexpr (kSoftmax) {
        score = mask[e / 4][e % 4] != 0 ? mask[e / 4][e % 4] * __expf(score - max[e % 4 / 2]) : 0.f;
      } else {
        score *= mask[e / 4][e % 4];
      }
      denominator[e % 4 / 2] += score;
    }
    add_weighted<T, kWidth>(total, rounded<T>(scores), nodes);
  };
  tile.for_rounds(
      a.columns, [&](int entry) { return values[entry]; }, [] {},
      [&](const Round& round, const float(&value)[Tile::kOwn]) {
        tile.for_columns(
            round, k, v, [&](int i, int row, int column) { memory.matrices[0][row][column] = value[i]; }, each,
            [](int, int, int) {});
      });

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    denominator[r] = sum_of_four(denominator[r]);
    if (tile.t != 0 || !tile.has(tile.g + 8 * r)) continue;
    const int64_t node = place.slice * a.rows + tile.first_row + tile.g + 8 * r;
    a.denominator[node] = denominator[r];
    if constexpr (kSoftmax) a.row_max[node] = max[r] == kNone ? 0.f : max[r];
  }
  tile.store_own(a.out + place.slice * a.rows * a.value_dim, a.value_dim, total, 1.f / clamped(denominator[0], a.eps),
                 1.f / clamped(denominator[1], a.eps));
}

/// The pass over rows, as in sparse_attention.cuh.
template <class T, int kWidth>
__global__ void __launch_bounds__(32, Tiled<kWidth>::kRowsBlocks)
    tiled_rows_kernel(const AttentionBackwardArgs<T, float> b) {
  using Tile = RowTile<T, kWidth, Tiled<kWidth>::kBackwardSpan, 2>;
  __shared__ typename Tile::Memory memory;
  __shared__ float inverses[kTileRows];
  const AttentionArgs<T, float>& a = b.forward;
  const TilePlace strand(a.rows, a.value_heads);
  Tile tile(memory, a.offsets, strand.tile, a.rows, a.longest_short_row);
  const bool softmax = a.row_max != nullptr;
  const float* values = a.values + strand.value_head * a.entries + tile.first_entry;
  float* grad_values = b.grad_values ? b.grad_values + strand.slice * a.entries + tile.first_entry : nullptr;
  for (int64_t slice = strand.slice; slice < a.slices; slice += b.strands) {
    const int64_t first_node = slice * a.rows;
    const SlicePlace at(slice, a.heads);
    const auto k = at.nodes(a.k, a.k_strides, a.features), v = at.nodes(a.v, a.v_strides, a.value_dim);
    auto* pairs = pairs_of(b) + slice * a.entries + tile.first_entry;
    uint32_t q[kWidth / 16][4], grad[kWidth / 16][4];
    tile.load_own(q, at.nodes(a.q, a.q_strides, a.features));
    tile.load_own(grad, at.nodes(b.grad_out, b.grad_strides, a.value_dim));
    float inverse[2], mean[2], max[2];
    const auto look_at_rows = [&] {
      uint32_t out[kWidth / 16][4];
      tile.load_own(out, Nodes<T>{a.out + first_node * a.value_dim, a.value_dim, a.value_dim});
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
        max[r] = valid && softmax ? a.row_max[node] : 0.f;
        if (tile.t == 0) inverses[tile.g + 8 * r] = inverse[r];
      }
    };
    float grad_q[kWidth / 8][4] = {};

    const auto each = [&](int first, const typename Tile::Rows& keys, const typename Tile::Rows& nodes) {
      float grad_scores[2][4], scores[2][4] = {}, products[2][4] = {};
      tile.read(grad_scores, 0, first);
      multiply_rows<T, kWidth>(scores, q, keys);
      multiply_rows<T, kWidth>(products, grad, nodes);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int r = e % 4 / 2;
        float &score = scores[e / 4][e % 4], &grad_score = grad_scores[e / 4][e % 4],
              &grad_weight = products[e / 4][e % 4];
        if (softmax) score = __expf(score * a.scale - max[r]);
        grad_weight = (grad_weight - mean[r]) * inverse[r];
        grad_score *= grad_weight;
        if (softmax) grad_score = grad_score != 0 ? grad_score * score * a.scale : 0.f;
      }
      tile.write(scores, 0, first);
      tile.write(products, 1, first);
      add_weighted<T, kWidth>(grad_q, rounded<T>(grad_scores), keys);
    };
    tile.for_rounds(
        a.columns, [&](int entry) { return values[entry]; }, look_at_rows,
        [&](const Round& round, const float(&value)[Tile::kOwn]) {
          tile.for_columns(
              round, k, v, [&](int i, int row, int column) { memory.matrices[0][row][column] = value[i]; }, each,
              [&](int i, int row, int column) {
                const float score = memory.matrices[0][row][column], grad_weight = memory.matrices[1][row][column];
                float grad_score = grad_weight * value[i];
                if (softmax) grad_score *= score * a.scale;
                pairs[round.entry[i]].put(value[i] * score * inverses[row], grad_score);
                if (grad_values) {
                  float& sum = grad_values[round.entry[i]];
                  sum = (slice >= b.strands ? sum : 0.f) + grad_weight * score;
                }
              });
        });
    tile.store_own(b.grad_q + first_node * a.features, a.features, grad_q);
  }
}

/// The pass over columns, as in sparse_attention.cuh.
template <class T, int kWidth>
__global__ void __launch_bounds__(32, Tiled<kWidth>::kColumnsBlocks)
    tiled_columns_kernel(const AttentionBackwardArgs<T, float> b) {
  using Tile = RowTile<T, kWidth, Tiled<kWidth>::kBackwardSpan, 1>;
  __shared__ typename Tile::Memory memory;
  const AttentionArgs<T, float>& a = b.forward;
  const TilePlace place(a.cols, a.value_heads);
  Tile tile(memory, b.t_offsets, place.tile, a.cols, b.longest_short_column);
  const SlicePlace slice(place.slice, a.heads);
  const auto* pairs = pairs_of(b) + place.slice * a.entries;
  const int64_t* in_row_order = b.t_index + tile.first_entry;
  float grad_k[kWidth / 8][4] = {}, grad_v[kWidth / 8][4] = {};

  tile.for_rounds(
      b.t_columns, [&](int entry) { return in_row_order[entry]; }, [] {},
      [&](const Round& round, const int64_t(&entry)[Tile::kOwn]) {
        uint32_t pair[Tile::kOwn];
#pragma unroll
        for (int i = 0; i < Tile::kOwn; ++i) pair[i] = round.row[i] >= 0 ? pairs[entry[i]].word : 0u;
        tile.for_columns(
            round, slice.nodes(a.q, a.q_strides, a.features), slice.nodes(b.grad_out, b.grad_strides, a.value_dim),
            [&](int i, int row, int column) { memory.matrices[0][row][column] = __uint_as_float(pair[i]); },
            [&](int first, const typename Tile::Rows& queries, const typename Tile::Rows& grads) {
              float both[2][4];
              tile.read(both, 0, first);
              LeftOperand grad_scores, weights;
#pragma unroll
              for (int w = 0; w < 4; ++w) {
                const uint32_t one = __float_as_uint(both[w / 2][w % 2 * 2]);
                const uint32_t other = __float_as_uint(both[w / 2][w % 2 * 2 + 1]);
                weights.words[w] = __byte_perm(one, other, 0x5410);
                grad_scores.words[w] = __byte_perm(one, other, 0x7632);
              }
              add_weighted<T, kWidth>(grad_k, grad_scores, queries);
              add_weighted<T, kWidth>(grad_v, weights, grads);
            },
            [](int, int, int) {});
      });
  tile.store_own(b.grad_k + place.slice * a.cols * a.features, a.features, grad_k);
  tile.store_own(b.grad_v + place.slice * a.cols * a.value_dim, a.value_dim, grad_v);
}

inline constexpr int kMostTiledWidth = 128;

/// f(width), compile-time, for the narrowest that holds `width` values.
template <class F>
void with_tile_width(int width, const F& f) {
  if (width <= 32) return f(Constant<32>{});
  if (width <= 64) return f(Constant<64>{});
  f(Constant<kMostTiledWidth>{});
}

inline unsigned tiles(int64_t rows, int64_t slices) {
  return static_cast<unsigned>((rows + kTileRows - 1) / kTileRows * slices);
}

template <class T>
void tiled_attention(const AttentionArgs<T, float>& args, cudaStream_t stream) {
  with_tile_width(std::max(args.features, args.value_dim), [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    void (*kernel)(AttentionArgs<T, float>) = tiled_forward_kernel<T, kWidth, false>;
    if (args.row_max) kernel = tiled_forward_kernel<T, kWidth, true>;
    kernel<<<tiles(args.rows, args.slices), 32, 0, stream>>>(args);
  });
}

template <class T>
void tiled_rows(const AttentionBackwardArgs<T, float>& args, cudaStream_t stream) {
  const AttentionArgs<T, float>& a = args.forward;
  with_tile_width(std::max(a.features, a.value_dim), [&](auto width) {
    tiled_rows_kernel<T, decltype(width)::value><<<tiles(a.rows, args.strands), 32, 0, stream>>>(args);
  });
}

template <class T>
void tiled_columns(const AttentionBackwardArgs<T, float>& args, cudaStream_t stream) {
  const AttentionArgs<T, float>& a = args.forward;
  with_tile_width(std::max(a.features, a.value_dim), [&](auto width) {
    tiled_columns_kernel<T, decltype(width)::value><<<tiles(a.cols, a.slices), 32, 0, stream>>>(args);
  });
}

}  // namespace topomask::cuda
