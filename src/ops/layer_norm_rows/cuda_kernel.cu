#include <algorithm>
#include <type_traits>

#include "core/cuda/packet.cuh"
#include "ops/layer_norm_rows/cuda_kernel.h"

// A group of kLanes threads takes a row and then every so many-th one: as many blocks as the chip holds at once walk
// over all rows. Weights, and sums over rows of the backward pass, stay in registers. The groups of a warp go in step,
// so that every shuffle is one of the whole warp.

namespace topomask::cuda {

namespace {

constexpr int kNormThreads = 256;
constexpr int kUnit = 4;  // values of one access: 16 bytes of float32, 8 of the others
constexpr unsigned kWholeWarp = 0xffffffffu;

/// How many blocks share a multiprocessor.
constexpr int forward_residents(int chunks) {
  return chunks == 1 ? 8 : chunks == 2 ? 5 : 3;
}
constexpr int backward_residents(int chunks) {
  return chunks <= 2 ? 4 : 2;
}

template <class T>
__device__ __forceinline__ void load_unit(const T* p, float (&x)[kUnit]) {
  using Raw = std::conditional_t<sizeof(T) == 4, uint4, uint2>;
  const Raw raw = __ldg(reinterpret_cast<const Raw*>(p));
#pragma unroll
  for (int i = 0; i < kUnit; ++i) x[i] = static_cast<float>(reinterpret_cast<const T*>(&raw)[i]);
}

template <class T>
__device__ __forceinline__ void store_unit(T* p, const float (&x)[kUnit]) {
  using Raw = std::conditional_t<sizeof(T) == 4, uint4, uint2>;
  Raw raw;
#pragma unroll
  for (int i = 0; i < kUnit; ++i) reinterpret_cast<T*>(&raw)[i] = static_cast<T>(x[i]);
  *reinterpret_cast<Raw*>(p) = raw;
}

/// The part of a row that a thread has: kChunks units, kLanes units apart.
template <int kLanes, int kChunks>
struct RowPart {
  static constexpr int kGroups = kNormThreads / kLanes;

  float x[kChunks][kUnit];

  static __device__ __forceinline__ int column(int chunk) {
    return (chunk * kLanes + static_cast<int>(threadIdx.x) % kLanes) * kUnit;
  }

  /// Loads zeros past the end of the row, and where the row is not wanted.
  template <class T>
  __device__ __forceinline__ void load(const T* row, int width, bool wanted = true) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kUnit; ++i) x[c][i] = 0;
      if (wanted && column(c) < width) load_unit(row + column(c), x[c]);
    }
  }

  template <class T>
  __device__ __forceinline__ void store(T* row, int width) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (column(c) < width) store_unit(row + column(c), x[c]);
    }
  }

  /// f(chunk, place) for every value.
  template <class F>
  static __device__ __forceinline__ void each(const F& f) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kUnit; ++i) f(c, i);
    }
  }

  /// Over the threads of the group, in all of them.
  static __device__ __forceinline__ float sum(float value) {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(kWholeWarp, value, step);
    return value;
  }
};

template <class T, class O, int kLanes, int kChunks>
__global__ void __launch_bounds__(kNormThreads, forward_residents(kChunks))
    forward_kernel(const T* x, const float* weight, const float* bias, O* out, float* mean, float* rstd, float eps,
                   const NormSizes sizes) {
  using Part = RowPart<kLanes, kChunks>;
  Part w, b;
  w.load(weight, sizes.width);
  b.load(bias, sizes.width);
  const int group = threadIdx.x / kLanes;
  const float share = 1.f / static_cast<float>(sizes.width);
  const int64_t step = static_cast<int64_t>(gridDim.x) * Part::kGroups;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * Part::kGroups; first < sizes.rows; first += step) {
    const int64_t row = first + group;
    const bool present = row < sizes.rows;
    Part y;
    y.load(x + row * sizes.width, sizes.width, present);
    float total = 0, squares = 0;
    Part::each([&](int c, int i) { total += y.x[c][i]; });
    const float middle = Part::sum(total) * share;
    Part::each([&](int c, int i) {
      y.x[c][i] = Part::column(c) < sizes.width ? y.x[c][i] - middle : 0.f;
      squares += y.x[c][i] * y.x[c][i];
    });
    const float inverse = rsqrtf(Part::sum(squares) * share + eps);
    if (!present) continue;
    Part::each([&](int c, int i) { y.x[c][i] = y.x[c][i] * inverse * w.x[c][i] + b.x[c][i]; });
    y.store(out + row * sizes.width, sizes.width);
    if (threadIdx.x % kLanes == 0) {
      mean[row] = middle;
      rstd[row] = inverse;
    }
  }
}

template <class T, class O, int kLanes, int kChunks>
__global__ void __launch_bounds__(kNormThreads, backward_residents(kChunks))
    backward_kernel(const O* grad, const T* x, const float* weight, const float* mean, const float* rstd, T* grad_x,
                    float* sums, const NormSizes sizes) {
  using Part = RowPart<kLanes, kChunks>;
  Part w, of_weight = {}, of_bias = {};
  w.load(weight, sizes.width);
  const int group = threadIdx.x / kLanes;
  const float share = 1.f / static_cast<float>(sizes.width);
  const int64_t step = static_cast<int64_t>(gridDim.x) * Part::kGroups;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * Part::kGroups; first < sizes.rows; first += step) {
    const int64_t row = first + group;
    const bool present = row < sizes.rows;
    Part g, y;
    g.load(grad + row * sizes.width, sizes.width, present);
    y.load(x + row * sizes.width, sizes.width, present);
    const float middle = present ? mean[row] : 0.f, inverse = present ? rstd[row] : 0.f;
    float total = 0, product = 0;
    Part::each([&](int c, int i) {
      y.x[c][i] = (y.x[c][i] - middle) * inverse;
      of_weight.x[c][i] += g.x[c][i] * y.x[c][i];
      of_bias.x[c][i] += g.x[c][i];
      g.x[c][i] *= w.x[c][i];
      total += g.x[c][i];
      product += g.x[c][i] * y.x[c][i];
    });
    total = Part::sum(total) * share;
    product = Part::sum(product) * share;
    if (!present) continue;
    Part::each([&](int c, int i) { g.x[c][i] = (g.x[c][i] - total - y.x[c][i] * product) * inverse; });
    g.store(grad_x + row * sizes.width, sizes.width);
  }
  // The groups of the block, one after another.
  constexpr int kHeld = kLanes * kChunks * kUnit;
  __shared__ float shared[Part::kGroups][2][kHeld];
  Part::each([&](int c, int i) {
    shared[group][0][Part::column(c) + i] = of_weight.x[c][i];
    shared[group][1][Part::column(c) + i] = of_bias.x[c][i];
  });
  __syncthreads();
  float* own = sums + static_cast<int64_t>(blockIdx.x) * 2 * sizes.width;
  for (int at = threadIdx.x; at < 2 * kHeld; at += kNormThreads) {
    const int which = at / kHeld, column = at % kHeld;
    if (column >= sizes.width) continue;
    float total = 0;
    for (int from = 0; from < Part::kGroups; ++from) total += shared[from][which][column];
    own[which * sizes.width + column] = total;
  }
}

template <int n>
using Number = std::integral_constant<int, n>;

/// f(lanes, chunks), both compile-time, for the narrowest group that holds a row.
template <class F>
auto with_lanes(int width, const F& f) {
  const int units = width / kUnit;
  if (units <= 8) return f(Number<8>{}, Number<1>{});
  if (units <= 16) return f(Number<8>{}, Number<2>{});
  if (units <= 32) return f(Number<16>{}, Number<2>{});
  return f(Number<16>{}, Number<4>{});
}

int block_count(int64_t rows, int lanes, int residents) {
  int device = 0, processors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const int64_t groups = kNormThreads / lanes, needed = (rows + groups - 1) / groups;
  return static_cast<int>(std::min<int64_t>(needed, static_cast<int64_t>(processors) * residents));
}

}  // namespace

template <class T, class O>
void layer_norm_rows(const T* x, const float* weight, const float* bias, O* out, float* mean, float* rstd, float eps,
                     const NormSizes& sizes, cudaStream_t stream) {
  if (sizes.rows == 0) return;
  with_lanes(sizes.width, [&](auto lanes, auto chunks) {
    const int blocks = block_count(sizes.rows, lanes, forward_residents(chunks));
    forward_kernel<T, O, lanes(), chunks()>
        <<<blocks, kNormThreads, 0, stream>>>(x, weight, bias, out, mean, rstd, eps, sizes);
  });
}

int layer_norm_rows_blocks(const NormSizes& sizes) {
  return with_lanes(
      sizes.width, [&](auto lanes, auto chunks) { return block_count(sizes.rows, lanes, backward_residents(chunks)); });
}

template <class T, class O>
void layer_norm_rows_backward(const O* grad, const T* x, const float* weight, const float* mean, const float* rstd,
                              T* grad_x, float* sums, const NormSizes& sizes, cudaStream_t stream) {
  if (sizes.rows == 0) return;
  with_lanes(sizes.width, [&](auto lanes, auto chunks) {
    backward_kernel<T, O, lanes(), chunks()>
        <<<layer_norm_rows_blocks(sizes), kNormThreads, 0, stream>>>(grad, x, weight, mean, rstd, grad_x, sums, sizes);
  });
}

#define TOPOMASK_LAYER_NORM_ROWS(T, O)                                                                           \
  template void layer_norm_rows<T, O>(const T*, const float*, const float*, O*, float*, float*, float,           \
                                      const NormSizes&, cudaStream_t);                                           \
  template void layer_norm_rows_backward<T, O>(const O*, const T*, const float*, const float*, const float*, T*, \
                                               float*, const NormSizes&, cudaStream_t);
TOPOMASK_LAYER_NORM_ROWS(float, float)
TOPOMASK_LAYER_NORM_ROWS(float, __nv_bfloat16)
TOPOMASK_LAYER_NORM_ROWS(float, __half)
TOPOMASK_LAYER_NORM_ROWS(__nv_bfloat16, __nv_bfloat16)
TOPOMASK_LAYER_NORM_ROWS(__half, __half)

}  // namespace topomask::cuda
