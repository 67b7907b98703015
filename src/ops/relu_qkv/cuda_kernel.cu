#include "core/cuda/packet.cuh"
#include "ops/relu_qkv/cuda_kernel.h"

namespace topomask::cuda {

namespace {

constexpr int kQkvThreads = 256;

unsigned qkv_blocks(int64_t packets) {
  return static_cast<unsigned>((packets + kQkvThreads - 1) / kQkvThreads);
}

/// NaN stays NaN, as in torch. Places are 32 bits wide: a division of 64 bits takes longer than the rest.
template <class T>
__global__ void __launch_bounds__(kQkvThreads)
    relu_qkv_kernel(const T* qkv, T* features, Accumulated<T> offset, uint32_t packets, uint32_t both) {
  using A = Accumulated<T>;
  constexpr int kSize = Packet<T>::kSize;
  const uint32_t at = blockIdx.x * kQkvThreads + threadIdx.x;
  if (at >= packets) return;
  // `both` packets of queries and keys of a node stand before half as many of values.
  const uint32_t node = at / both, from = at + node * (both / 2);
  const Packet<T> x = Packet<T>::load(qkv + static_cast<int64_t>(from) * kSize);
  A y[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) y[i] = (x[i] <= A(0) ? A(0) : x[i]) + offset;
  Packet<T>::store(features + static_cast<int64_t>(at) * kSize, y);
}

template <class T>
__global__ void __launch_bounds__(kQkvThreads)
    relu_qkv_backward_kernel(const HeadRows<T> grad_q, const HeadRows<T> grad_k, const HeadRows<T> grad_v, const T* qkv,
                             T* grad, uint32_t nodes, uint32_t packets, uint32_t heads, uint32_t row_packets) {
  using A = Accumulated<T>;
  constexpr int kSize = Packet<T>::kSize;
  const uint32_t at = blockIdx.x * kQkvThreads + threadIdx.x;
  if (at >= packets) return;
  const uint32_t row = at / row_packets, packet = at - row * row_packets;  // rows of B × N × 3 × H
  const uint32_t part_row = row / heads, head = row - part_row * heads;
  const uint32_t place = part_row / 3, part = part_row - place * 3;
  const uint32_t batch = place / nodes, node = place - batch * nodes;
  const auto of_part = [part](const auto& q, const auto& k, const auto& v) {
    return part == 0 ? q : part == 1 ? k : v;
  };
  const T* from = of_part(grad_q.data, grad_k.data, grad_v.data);
  from += batch * of_part(grad_q.batch, grad_k.batch, grad_v.batch);
  from += head * of_part(grad_q.head, grad_k.head, grad_v.head);
  from += node * of_part(grad_q.row, grad_k.row, grad_v.row);
  const Packet<T> g = Packet<T>::load(from + packet * kSize);
  A y[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) y[i] = g[i];
  if (part < 2) {
    const Packet<T> x = Packet<T>::load(qkv + static_cast<int64_t>(at) * kSize);
#pragma unroll
    for (int i = 0; i < kSize; ++i) y[i] = x[i] <= A(0) ? A(0) : y[i];
  }
  Packet<T>::store(grad + static_cast<int64_t>(at) * kSize, y);
}

}  // namespace

template <class T>
void relu_qkv(const T* qkv, T* features, double offset, const QkvSizes& sizes, cudaStream_t stream) {
  const int both = 2 * sizes.heads * sizes.width / Packet<T>::kSize;
  const int64_t packets = sizes.batch * sizes.nodes * both;
  if (packets == 0) return;
  relu_qkv_kernel<<<qkv_blocks(packets), kQkvThreads, 0, stream>>>(
      qkv, features, static_cast<Accumulated<T>>(offset), static_cast<uint32_t>(packets), static_cast<uint32_t>(both));
}

template <class T>
void relu_qkv_backward(const HeadRows<T>& grad_q, const HeadRows<T>& grad_k, const HeadRows<T>& grad_v, const T* qkv,
                       T* grad, const QkvSizes& sizes, cudaStream_t stream) {
  const int row_packets = sizes.width / Packet<T>::kSize;
  const int64_t packets = sizes.batch * sizes.nodes * 3 * sizes.heads * row_packets;
  if (packets == 0) return;
  relu_qkv_backward_kernel<<<qkv_blocks(packets), kQkvThreads, 0, stream>>>(
      grad_q, grad_k, grad_v, qkv, grad, static_cast<uint32_t>(sizes.nodes), static_cast<uint32_t>(packets),
      static_cast<uint32_t>(sizes.heads), static_cast<uint32_t>(row_packets));
}

#define TOPOMASK_RELU_QKV(T)                                                                                   \
  template void relu_qkv<T>(const T*, T*, double, const QkvSizes&, cudaStream_t);                              \
  template void relu_qkv_backward<T>(const HeadRows<T>&, const HeadRows<T>&, const HeadRows<T>&, const T*, T*, \
                                     const QkvSizes&, cudaStream_t);
TOPOMASK_RELU_QKV(float)
TOPOMASK_RELU_QKV(double)
TOPOMASK_RELU_QKV(__nv_bfloat16)
TOPOMASK_RELU_QKV(__half)

}  // namespace topomask::cuda
