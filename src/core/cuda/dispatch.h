#pragma once

#include <ATen/ATen.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// What the glue between tensors and kernels on the GPU shares.

namespace topomask::cuda {

/// A storage type and the type it is accumulated in.
template <class T, class A>
struct Types {};

/// f(Types<T, A>{}) for the CUDA types of a dtype.
template <class F>
void dispatch(at::ScalarType dtype, const F& f) {
  switch (dtype) {
    case at::kFloat:
      return f(Types<float, float>{});
    case at::kDouble:
      return f(Types<double, double>{});
    case at::kBFloat16:
      return f(Types<__nv_bfloat16, float>{});
    case at::kHalf:
      return f(Types<__half, float>{});
    default:
      TORCH_INTERNAL_ASSERT(false, "no kernels for ", dtype);
  }
}

/// f(T{}) for float or double.
template <class F>
void with_real(at::ScalarType dtype, const F& f) {
  if (dtype == at::kFloat) {
    f(float{});
  } else {
    f(double{});
  }
}

/// The elements as CUDA's type of the same bits.
template <class T>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

/// The tensor, or a copy, contiguous from a multiple of 16 bytes on: a view may begin anywhere.
inline at::Tensor aligned(const at::Tensor& tensor) {
  const at::Tensor rows = tensor.contiguous();
  return reinterpret_cast<uintptr_t>(rows.data_ptr()) % 16 == 0 ? rows : rows.clone();
}

/// [B, H, N, C] → contiguous rows of a multiple of 8 values, zero in the padding, which makes them 16-byte aligned; the
/// tensor itself where it is that already.
inline at::Tensor to_rows(const at::Tensor& tensor) {
  constexpr int64_t kUnit = 8;
  const int64_t missing = (kUnit - tensor.size(3) % kUnit) % kUnit;
  return aligned(missing == 0 ? tensor : at::constant_pad_nd(tensor, {0, missing}));
}

/// The same for kernels that take the distance between rows: the tensor itself also where rows do not follow one
/// another, as long as each is contiguous and starts at a multiple of 16 bytes.
inline at::Tensor readable_rows(const at::Tensor& tensor) {
  const int64_t unit = 16 / tensor.element_size();
  const auto starts_at_units = [&](int64_t dim) { return tensor.size(dim) == 1 || tensor.stride(dim) % unit == 0; };
  const bool readable = tensor.size(3) % 8 == 0 && tensor.stride(3) == 1 && starts_at_units(0) && starts_at_units(1) &&
                        starts_at_units(2) && reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 16 == 0 &&
                        tensor.stride(2) <= INT32_MAX / 16;
  return readable ? tensor : to_rows(tensor);
}

/// Back: the first `width` columns, contiguous.
inline at::Tensor from_rows(const at::Tensor& rows, int64_t width) {
  return rows.narrow(3, 0, width).contiguous();
}

}  // namespace topomask::cuda
