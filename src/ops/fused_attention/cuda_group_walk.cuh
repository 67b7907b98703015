#pragma once

#include "ops/fused_attention/cuda_tile.cuh"

// Which tiles of M and which slices a block adds up in the passes for the gradient of a mask. The grid is parts of the
// groups × heads of the mask × parts of the slices that share a head.

namespace topomask::cuda {

template <int kTile>
struct GroupWalk {
  /// Where a step finds its tiles.
  struct Step {
    int row0, column0, batch, head;
  };

  template <class T>
  __device__ __forceinline__ GroupWalk(const FusedArgs<T>& a, const FusedGroups& groups)
      : groups(groups),
        blocks(((int)a.mask.nodes + kTile - 1) / kTile),
        heads(a.heads),
        mask_head(slice_of_block(a)),
        one_head(a.mask.heads == 1) {
    const int sharing = one_head ? a.batch * a.heads : a.batch, split = blockIdx.z;
    begin = (int)((int64_t)sharing * split / groups.splits);
    count = (int)((int64_t)sharing * (split + 1) / groups.splits) - begin;
  }

  /// The block's copy of the gradient: blocks that take different tiles of a matrix share one.
  __device__ __forceinline__ float* own_copy(float* all_sums, const TileMask<float>& mask, bool matrix) const {
    const int copy = matrix ? blockIdx.z : blockIdx.z * groups.parts + blockIdx.x;
    return all_sums + ((int64_t)copy * mask.heads + mask_head) * mask.length;
  }

  /// Rounds over the groups go back and forth; the last round may name groups past the last one.
  __device__ __forceinline__ bool has_round(int round) const { return round * groups.parts < groups.groups; }
  __device__ __forceinline__ int group_of(int round) const {
    const int part = blockIdx.x;
    return round * groups.parts + (round % 2 == 0 ? part : groups.parts - 1 - part);
  }

  /// The tiles of a group are consecutive members; without groups every tile is one.
  __device__ __forceinline__ bool alone() const { return groups.first == nullptr; }
  __device__ __forceinline__ int first_member(int group) const { return alone() ? group : groups.first[group]; }
  /// Steps through the members of a group, and through the slices of each.
  __device__ __forceinline__ int steps(int group) const {
    return (alone() ? 1 : groups.first[group + 1] - groups.first[group]) * count;
  }
  __device__ __forceinline__ Step step_at(int first_member, int step) const {
    const int slice = begin + step % count, member = first_member + step / count;
    return {row_of(member), column_of(member), one_head ? slice / heads : slice, one_head ? slice % heads : mask_head};
  }
  __device__ __forceinline__ int row_of(int member) const {
    return (alone() ? member / blocks : groups.rows[member]) * kTile;
  }
  __device__ __forceinline__ int column_of(int member) const {
    return (alone() ? member % blocks : groups.columns[member]) * kTile;
  }

  const FusedGroups& groups;
  int blocks;  ///< tiles along a side of M
  int heads, mask_head;
  bool one_head;     ///< of the mask, for all heads of attention
  int begin, count;  ///< the slices that share this head of the mask, of which this block takes some
};

}  // namespace topomask::cuda
