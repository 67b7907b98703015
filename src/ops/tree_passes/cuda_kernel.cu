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
  __device__ __forceinline__ Place(const TreeArgs<T>& a, int64_t items)
      : edge(a.edge + slice % a.heads * a.size), valid(item < items && column < a.columns) {}
  __device__ __forceinline__ int64_t at(const TreeArgs<T>& a, int64_t node) const {
    return (slice * a.size + node) * a.columns + column;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) inside_kernel(const TreeArgs<T> a, int64_t first, int64_t last) {
  const Place<T> place(a, last - first);
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
__global__ void __launch_bounds__(kThreads) beside_kernel(const TreeArgs<T> a) {
  const Place<T> place(a, a.size);
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
__global__ void __launch_bounds__(kThreads) outside_kernel(const TreeArgs<T> a, int64_t first, int64_t last) {
  const Place<T> place(a, last - first);
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

template <class T>
dim3 grid_for(const TreeArgs<T>& args, int64_t items) {
  return ItemColumns::grid(items, args.columns, args.slices);
}

}  // namespace

template <class T>
void tree_inside(const TreeArgs<T>& args, int64_t first, int64_t last, cudaStream_t stream) {
  if (first < last) inside_kernel<T><<<grid_for(args, last - first), kThreads, 0, stream>>>(args, first, last);
}

template <class T>
void tree_beside(const TreeArgs<T>& args, cudaStream_t stream) {
  if (args.size > 0) beside_kernel<T><<<grid_for(args, args.size), kThreads, 0, stream>>>(args);
}

template <class T>
void tree_outside(const TreeArgs<T>& args, int64_t first, int64_t last, cudaStream_t stream) {
  if (first < last) outside_kernel<T><<<grid_for(args, last - first), kThreads, 0, stream>>>(args, first, last);
}

#define TOPOMASK_TREE(T)                                                         \
  template void tree_inside(const TreeArgs<T>&, int64_t, int64_t, cudaStream_t); \
  template void tree_beside(const TreeArgs<T>&, cudaStream_t);                   \
  template void tree_outside(const TreeArgs<T>&, int64_t, int64_t, cudaStream_t);
TOPOMASK_TREE(float)
TOPOMASK_TREE(double)

}  // namespace topomask::cuda
