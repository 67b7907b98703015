#include "masks/forest/exponential/exponential_kernel.h"

#include "core/simd.h"

namespace topomask {
namespace {

/// Rows are met in the order of the tree, which need not be that of memory: they are prefetched this many entries
/// ahead.
constexpr int64_t kAhead = 16;

template <class T>
TOPOMASK_INLINE void prefetch_row(const T* row, int64_t width) {
  for (int64_t c = 0; c < width; c += 64 / static_cast<int64_t>(sizeof(T))) __builtin_prefetch(row + c);
}

template <class S>
TOPOMASK_INLINE void tree_gather_body(const TreeRowsArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    if (i + kAhead < end) prefetch_row(args.from + args.node[i + kAhead] * args.from_stride, args.width);
    const auto* from = args.from + args.node[i] * args.from_stride;
    auto* to = args.to + i * args.to_stride;
#pragma GCC ivdep
    for (int64_t c = 0; c < args.width; ++c) to[c] = args.scale * from[c];
  }
}

template <class S>
TOPOMASK_INLINE void tree_scatter_body(const TreeRowsArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const auto* from = args.from + i * args.from_stride;
    auto* to = args.to + args.node[i] * args.to_stride;
    int64_t c = 0;
    for (; args.streaming && c + S::kLanes <= args.width; c += S::kLanes) S::stream(to + c, S::load(from + c));
#pragma GCC ivdep
    for (; c < args.width; ++c) to[c] = from[c];
  }
  S::end_streaming();
}

template <class S>
TOPOMASK_INLINE void tree_up_body(const TreePassArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using T = typename S::Scalar;
  const int64_t width = args.width;
  for (int64_t i = end - 1; i >= begin; --i) {
    if (!args.by_entry && i - kAhead >= begin) prefetch_row(args.y + args.node[i - kAhead] * args.stride, width);
    const int64_t v = args.node[i], p = args.parent[i];
    if (p < 0) continue;
    const T e = args.edge[v];
    const T* own = args.y + (args.by_entry ? i : v) * args.stride;
    T* up = args.y + p * args.stride;
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) up[c] += e * own[c];
  }
}

template <class S>
TOPOMASK_INLINE void tree_down_body(const TreePassArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using T = typename S::Scalar;
  const int64_t width = args.width;
  for (int64_t i = begin; i < end; ++i) {
    if (!args.by_entry && i + kAhead < end) prefetch_row(args.y + args.node[i + kAhead] * args.stride, width);
    const int64_t v = args.node[i], p = args.parent[i];
    if (p < 0) continue;
    const T e = args.edge[v], rest = 1 - e * e;
    const T* up = args.y + p * args.stride;
    T* own = args.y + (args.by_entry ? i : v) * args.stride;
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) own[c] = e * up[c] + rest * own[c];
  }
}

template <class S>
TOPOMASK_INLINE void tree_outside_body(const OutsideArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using T = typename S::Scalar;
  const int64_t width = args.width, stride = args.stride;
  T* sum = args.buffer;
  for (int64_t place = begin; place < end; ++place) {
    const int64_t p = args.preorder[place];
    T* outside = args.outside + p * stride;
    if (args.preorder_parent[place] < 0) {
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) outside[c] = 0;
    }
    const T* x = args.x + p * stride;
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) sum[c] = args.scale * x[c] + outside[c];
    const int64_t first = args.child_offset[p], last = args.child_offset[p + 1];
    for (int64_t k = first; k < last; ++k) {
      const int64_t v = args.children[k];
      const T e = args.edge[v];
      const T* inside = args.inside + v * stride;
      T* out = args.outside + v * stride;
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) {
        out[c] = sum[c];
        sum[c] += e * inside[c];
      }
    }
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) sum[c] = 0;
    for (int64_t k = last; k-- > first;) {
      const int64_t v = args.children[k];
      const T e = args.edge[v];
      const T* inside = args.inside + v * stride;
      T* out = args.outside + v * stride;
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) {
        out[c] = e * (out[c] + sum[c]);
        sum[c] += e * inside[c];
      }
    }
  }
}

template <class S>
TOPOMASK_INLINE double lanes_sum(typename S::Vector v) {
  double sum = 0;
  for (int lane = 0; lane < S::kLanes; ++lane) sum += v[lane];
  return sum;
}

template <class S>
TOPOMASK_INLINE void edge_gradients_body(const EdgeGradientArgs<typename S::Scalar>& args, int64_t begin, int64_t end) {
  using Vector = typename S::Vector;
  for (int64_t v = begin; v < end; ++v) {
    const int64_t at = v * args.width;
    const auto *sx = args.inside_x + at, *sg = args.inside_g + at, *ox = args.other_x + at, *og = args.other_g + at;
    const auto* g = args.g + at;
    Vector edges{}, nodes{};
    int64_t c = 0;
    for (; c + S::kLanes <= args.width; c += S::kLanes) {
      const Vector inside = S::load(sx + c), outside = S::load(ox + c);
      edges += inside * S::load(og + c) + S::load(sg + c) * outside;
      nodes += S::load(g + c) * (inside + outside);
    }
    double edge = lanes_sum<S>(edges), node = lanes_sum<S>(nodes);
    for (; c < args.width; ++c) {
      edge += sx[c] * og[c] + sg[c] * ox[c];
      node += g[c] * (sx[c] + ox[c]);
    }
    args.edges[v] += edge;
    args.nodes[v] += node;
  }
}

template <class S>
TOPOMASK_INLINE void edge_gradients_from_totals_body(const EdgeGradientArgs<typename S::Scalar>& args, int64_t begin,
                                                     int64_t end) {
  using Vector = typename S::Vector;
  for (int64_t v = begin; v < end; ++v) {
    const int64_t at = v * args.width, up = (args.parent[v] < 0 ? v : args.parent[v]) * args.width;
    const auto e = args.parent[v] < 0 ? 0 : args.edge[v];  // nothing comes from above a root
    const auto *sx = args.inside_x + at, *sg = args.inside_g + at, *rx = args.other_x + up, *rg = args.other_g + up;
    const auto *own = args.other_x + at, *g = args.g + at;
    Vector edges{}, nodes{};
    int64_t c = 0;
    for (; c + S::kLanes <= args.width; c += S::kLanes) {
      const Vector inside_x = S::load(sx + c), inside_g = S::load(sg + c);
      edges += inside_x * (S::load(rg + c) - e * inside_g) + inside_g * (S::load(rx + c) - e * inside_x);
      nodes += S::load(g + c) * S::load(own + c);
    }
    double edge = lanes_sum<S>(edges), node = lanes_sum<S>(nodes);
    for (; c < args.width; ++c) {
      edge += sx[c] * (rg[c] - e * sg[c]) + sg[c] * (rx[c] - e * sx[c]);
      node += g[c] * own[c];
    }
    args.edges[v] += e * edge;
    args.nodes[v] += node;
  }
}

}  // namespace

TOPOMASK_SIMD_KERNEL(tree_gather, TreeRowsArgs)
TOPOMASK_SIMD_KERNEL(tree_scatter, TreeRowsArgs)
TOPOMASK_SIMD_KERNEL(tree_up, TreePassArgs)
TOPOMASK_SIMD_KERNEL(tree_down, TreePassArgs)
TOPOMASK_SIMD_KERNEL(tree_outside, OutsideArgs)
TOPOMASK_SIMD_KERNEL(edge_gradients, EdgeGradientArgs)
TOPOMASK_SIMD_KERNEL(edge_gradients_from_totals, EdgeGradientArgs)

}  // namespace topomask
