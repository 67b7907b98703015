#include "core/cuda/clamped.cuh"
#include "core/cuda/packet.cuh"
#include "ops/normalised_weights/cuda_kernel.h"

// A warp takes a row, which it holds in registers: packets of 16 bytes, kPackets a lane.

namespace topomask::cuda {
namespace {

constexpr int kWarps = 4;

template <class A>
__device__ __forceinline__ A warp_sum(A x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

/// The values of a row that a lane holds: packet p at column (32p + lane)·size.
template <class T, int kPackets>
struct Lane {
  using A = Accumulated<T>;
  static constexpr int kSize = Packet<T>::kSize;

  int64_t cols;

  __device__ __forceinline__ int64_t column(int p) const { return (32 * p + threadIdx.x % 32) * kSize; }

  /// f(p, column) for the packets inside the row.
  template <class F>
  __device__ __forceinline__ void for_packets(const F& f) const {
#pragma unroll
    for (int p = 0; p < kPackets; ++p) {
      if (column(p) < cols) f(p, column(p));
    }
  }

  __device__ __forceinline__ void load(Packet<T> (&x)[kPackets], const T* row) const {
    for_packets([&](int p, int64_t c) { x[p] = Packet<T>::load(row + c); });
  }
  __device__ __forceinline__ void load(A (&x)[kPackets][kSize], const A* row) const {
    for_packets([&](int p, int64_t c) {
#pragma unroll
      for (int i = 0; i < kSize; i += Packet<A>::kSize) {
        const auto wide = Packet<A>::load(row + c + i);
#pragma unroll
        for (int j = 0; j < Packet<A>::kSize; ++j) x[p][i + j] = wide[j];
      }
    });
  }
};

template <class T, class A, int kPackets>
__global__ void __launch_bounds__(32 * kWarps) forward_kernel(const WeightsArgs<T, A> a, T* weights) {
  using L = Lane<T, kPackets>;
  const int64_t at = (int64_t)blockIdx.x * kWarps + threadIdx.x / 32;
  if (at >= a.batch * a.heads * a.rows) return;
  const int64_t row = at % a.rows, head = at / a.rows % a.heads;
  const L lane{a.cols};
  Packet<T> scores[kPackets];
  A x[kPackets][L::kSize] = {}, sum = 0;
  lane.load(scores, a.scores + at * a.cols);
  lane.load(x, a.mask + (a.mask_heads == 1 ? row : head * a.rows + row) * a.cols);
  lane.for_packets([&](int p, int64_t) {
#pragma unroll
    for (int i = 0; i < L::kSize; ++i) sum += x[p][i] *= scores[p][i];
  });
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) a.denominator[at] = sum;
  const A inverse = A(1) / clamped(sum, a.eps);
  lane.for_packets([&](int p, int64_t c) {
#pragma unroll
    for (int i = 0; i < L::kSize; ++i) x[p][i] *= inverse;
    Packet<T>::store(weights + at * a.cols + c, x[p]);
  });
}

/// A warp takes one row of the mask and a part of the slices that share it, one after the other, so that the gradient
/// of the mask is summed in registers and in a fixed order.
template <class T, class A, int kPackets>
__global__ void __launch_bounds__(32 * kWarps)
    backward_kernel(const WeightsArgs<T, A> a, const T* grad, T* grad_scores, A* grad_mask, int64_t parts) {
  using L = Lane<T, kPackets>;
  const int64_t mask_rows = a.mask_heads * a.rows, at = (int64_t)blockIdx.x * kWarps + threadIdx.x / 32;
  if (at >= parts * mask_rows) return;
  const int64_t part = at / mask_rows, mask_row = at % mask_rows, row = mask_row % a.rows;
  // Slices that share this row: those of its head, or all.
  const int64_t step = a.mask_heads == 1 ? 1 : a.heads, first = a.mask_heads == 1 ? 0 : mask_row / a.rows;
  const int64_t shared = a.batch * a.heads / step;
  const L lane{a.cols};
  A mask[kPackets][L::kSize] = {}, total[kPackets][L::kSize] = {};
  lane.load(mask, a.mask + mask_row * a.cols);
  for (int64_t s = shared * part / parts; s < shared * (part + 1) / parts; ++s) {
    const int64_t node = (first + s * step) * a.rows + row;
    Packet<T> scores[kPackets], grads[kPackets];
    lane.load(scores, a.scores + node * a.cols);
    lane.load(grads, grad + node * a.cols);
    const A denominator = a.denominator[node], inverse = A(1) / clamped(denominator, a.eps);
    A mean = 0;
    lane.for_packets([&](int p, int64_t) {
#pragma unroll
      for (int i = 0; i < L::kSize; ++i) mean += grads[p][i] * (mask[p][i] * scores[p][i]);
    });
    // A clamped D does not move with the weights.
    mean = fabs(denominator) < a.eps ? A(0) : warp_sum(mean) * inverse;
    lane.for_packets([&](int p, int64_t c) {
      A out[L::kSize];
#pragma unroll
      for (int i = 0; i < L::kSize; ++i) {
        const A g = (grads[p][i] - mean) * inverse;
        total[p][i] += g * scores[p][i];
        out[i] = g * mask[p][i];
      }
      Packet<T>::store(grad_scores + node * a.cols + c, out);
    });
  }
  lane.for_packets([&](int p, int64_t c) {
#pragma unroll
    for (int i = 0; i < L::kSize; ++i) grad_mask[at * a.cols + c + i] = total[p][i];
  });
}

/// f(packets a lane), compile-time, for rows of `cols`.
template <class T, class F>
void with_packets(int64_t cols, const F& f) {
  const int64_t packets = cols / Packet<T>::kSize;
  if (packets <= 32) return f(std::integral_constant<int, 1>{});
  if (packets <= 64) return f(std::integral_constant<int, 2>{});
  f(std::integral_constant<int, 4>{});
}

unsigned blocks(int64_t rows) {
  return static_cast<unsigned>((rows + kWarps - 1) / kWarps);
}

}  // namespace

template <class T, class A>
void normalised_weights(const WeightsArgs<T, A>& args, T* weights, cudaStream_t stream) {
  with_packets<T>(args.cols, [&](auto packets) {
    forward_kernel<T, A, decltype(packets)::value>
        <<<blocks(args.batch * args.heads * args.rows), 32 * kWarps, 0, stream>>>(args, weights);
  });
}

template <class T, class A>
void normalised_weights_backward(const WeightsArgs<T, A>& args, const T* grad, T* grad_scores, A* grad_mask,
                                 int64_t parts, cudaStream_t stream) {
  with_packets<T>(args.cols, [&](auto packets) {
    backward_kernel<T, A, decltype(packets)::value>
        <<<blocks(parts * args.mask_heads * args.rows), 32 * kWarps, 0, stream>>>(args, grad, grad_scores, grad_mask,
                                                                                  parts);
  });
}

#define TOPOMASK_NORMALISED_WEIGHTS(T, A)                                             \
  template void normalised_weights<T, A>(const WeightsArgs<T, A>&, T*, cudaStream_t); \
  template void normalised_weights_backward<T, A>(const WeightsArgs<T, A>&, const T*, T*, A*, int64_t, cudaStream_t);

TOPOMASK_NORMALISED_WEIGHTS(float, float)
TOPOMASK_NORMALISED_WEIGHTS(double, double)
TOPOMASK_NORMALISED_WEIGHTS(__half, float)
TOPOMASK_NORMALISED_WEIGHTS(__nv_bfloat16, float)

}  // namespace topomask::cuda
