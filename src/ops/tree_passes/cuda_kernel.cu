#include "ops/cuda/item_columns.cuh"
#include "ops/tree_passes/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kThreads = ItemColumns::kThreads;

/// An item is a path or a node.
template <class T>
struct Place : ItemColumns {
  const T* edge;
  bool valid;
  __device__ __forceinline__ Place(const TreeArgs<T>& a, int64_t first_slice, int64_t items)
      : ItemColumns(first_slice), edge(a.edge + slice % a.heads * a.size), valid(item < items && column < a.columns) {}
  __device__ __forceinline__ int64_t at(const TreeArgs<T>& a, int64_t node) const {
    return (slice * a.size + node) * a.columns + column;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    inside_kernel(const TreeArgs<T> a, int64_t first_slice, int64_t first, int64_t last) {
  const Place<T> place(a, first_slice, last - first);
  if (!place.valid) return;
  const int32_t begin = a.offsets[first + place.item];
  T below = 0;  // e·S of the heavy child
  for (int32_t i = a.offsets[first + place.item + 1]; i-- > begin;) {
    const int32_t v = a.nodes[i];
    T sum = a.x[place.at(a, v)] + below;
    for (int32_t k = a.light_offsets[v]; k < a.light_offsets[v + 1]; ++k) {
      const int32_t c = a.light_children[k];
      sum += place.edge[c] * a.inside[place.at(a, c)];
    }
    a.inside[place.at(a, v)] = sum;
    below = place.edge[v] * sum;
  }
}

/// For the children of a node: sums from the front and from the back instead of one less its own part, which would
/// cancel.
template <class T>
__global__ void __launch_bounds__(kThreads) beside_kernel(const TreeArgs<T> a, int64_t first_slice) {
  const Place<T> place(a, first_slice, a.size);
  if (!place.valid) return;
  const auto p = static_cast<int32_t>(place.item);
  if (a.parent[p] < 0) a.beside[place.at(a, p)] = 0;
  const int32_t heavy = a.heavy[p];
  if (heavy < 0) return;
  const int32_t begin = a.light_offsets[p], end = a.light_offsets[p + 1];
  const T own = a.x[place.at(a, p)];
  T sum = own + place.edge[heavy] * a.inside[place.at(a, heavy)];
  for (int32_t k = begin; k < end; ++k) {
    const int32_t c = a.light_children[k];
    a.beside[place.at(a, c)] = sum;
    sum += place.edge[c] * a.inside[place.at(a, c)];
  }
  sum = 0;
  for (int32_t k = end; k-- > begin;) {
    const int32_t c = a.light_children[k];
    a.beside[place.at(a, c)] += sum;
    sum += place.edge[c] * a.inside[place.at(a, c)];
  }
  a.beside[place.at(a, heavy)] = own + sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    outside_kernel(const TreeArgs<T> a, int64_t first_slice, int64_t first, int64_t last) {
  const Place<T> place(a, first_slice, last - first);
  if (!place.valid) return;
  const int32_t begin = a.offsets[first + place.item], end = a.offsets[first + place.item + 1];
  const int32_t above = a.parent[a.nodes[begin]];
  T outside = above < 0 ? T(0) : a.outside[place.at(a, above)];
  for (int32_t i = begin; i < end; ++i) {
    const int32_t v = a.nodes[i];
    outside = a.parent[v] < 0 ? T(0) : place.edge[v] * (a.beside[place.at(a, v)] + outside);
    a.outside[place.at(a, v)] = outside;
  }
}

/// kernel(args, first_slice, rest...) over all slices.
template <class T, class Kernel, class... Rest>
void launch(const TreeArgs<T>& args, int64_t items, cudaStream_t stream, Kernel* kernel, Rest... rest) {
  ItemColumns::launch(items, args.columns, args.slices, [&](dim3 grid, int64_t first_slice) {
    kernel<<<grid, kThreads, 0, stream>>>(args, first_slice, rest...);
  });
}

}  // namespace

template <class T>
void tree_inside(const TreeArgs<T>& args, int64_t first, int64_t last, cudaStream_t stream) {
  if (first < last) launch(args, last - first, stream, inside_kernel<T>, first, last);
}

template <class T>
void tree_beside(const TreeArgs<T>& args, cudaStream_t stream) {
  if (args.size > 0) launch(args, args.size, stream, beside_kernel<T>);
}

template <class T>
void tree_outside(const TreeArgs<T>& args, int64_t first, int64_t last, cudaStream_t stream) {
  if (first < last) launch(args, last - first, stream, outside_kernel<T>, first, last);
}

#define TOPOMASK_TREE(T)                                                         \
  template void tree_inside(const TreeArgs<T>&, int64_t, int64_t, cudaStream_t); \
  template void tree_beside(const TreeArgs<T>&, cudaStream_t);                   \
  template void tree_outside(const TreeArgs<T>&, int64_t, int64_t, cudaStream_t);
TOPOMASK_TREE(float)
TOPOMASK_TREE(double)

}  // namespace topomask::cuda
