#pragma once

/// Marks a small function that kernels use as well.
#ifdef __CUDACC__
#define TOPOMASK_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TOPOMASK_HOST_DEVICE __attribute__((always_inline)) inline
#endif
