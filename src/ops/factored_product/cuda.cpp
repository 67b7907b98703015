#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/column_tensors.h"
#include "ops/factored_product/op.h"
#include "ops/spmm/op.h"

// The features route on the GPU, from the sparse products there: the same streaming over slices of the features.

namespace topomask::ops::factored_product {
namespace {

using at::Tensor;
using at::TensorList;

/// One side Φ of the factors as the operators take it.
struct Side {
  const Tensor& values;
  TensorList pattern;

  Tensor times(const Tensor& x) const { return spmm::multiply(values, x, pattern); }                        // Φ·x
  Tensor transposed_times(const Tensor& x) const { return spmm::multiply_transposed(values, x, pattern); }  // Φᵀ·x
  /// ∂⟨a, Φ·b⟩/∂Φ
  Tensor gradient(const Tensor& a, const Tensor& b) const { return spmm::sddmm(a, b, pattern, values.size(0)); }
};

/// Features at a time: enough columns for the sparse products, within some memory.
int64_t slice_width(const Tensor& values) {
  constexpr int64_t kColumns = 512, kBytes = int64_t{512} << 20;
  const int64_t bytes = values.numel() * static_cast<int64_t>(values.element_size());
  return std::clamp<int64_t>(std::min(kColumns / values.size(3), kBytes / std::max<int64_t>(1, bytes)), 1, 64);
}

Tensor with_ones(const Tensor& v, at::ScalarType type) {
  return at::constant_pad_nd(v.to(type), {0, 1}, 1);
}

Two multiply_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& left_values, TensorList left_pattern,
                  const Tensor& right_values, TensorList right_pattern) {
  check(q, k, v, left_values, left_pattern, right_values, right_pattern);
  const c10::cuda::CUDAGuard guard(q.device());
  const Side left{left_values, left_pattern}, right{right_values, right_pattern};
  const at::ScalarType type = accumulation_type(q.scalar_type());
  const Tensor values = with_ones(v, type), queries = q.to(type), keys = k.to(type);
  Tensor sum = at::zeros({q.size(0), q.size(1), q.size(2), values.size(3)}, values.options());
  const int64_t width = slice_width(values);
  for (int64_t s = 0; s < q.size(3); s += width) {
    const int64_t count = std::min(width, q.size(3) - s);
    const Tensor y = left.times(right.transposed_times(column_products(keys.narrow(3, s, count), values)));
    sum += sum_over_features(y, queries.narrow(3, s, count));
  }
  return {sum.narrow(3, 0, v.size(3)).contiguous(), sum.select(3, v.size(3)).contiguous()};
}

Five backward_cuda(const Tensor& grad_numerator, const Tensor& grad_denominator, const Tensor& q, const Tensor& k,
                   const Tensor& v, const Tensor& left_values, TensorList left_pattern, const Tensor& right_values,
                   TensorList right_pattern, bool want_left, bool want_right) {
  check(q, k, v, left_values, left_pattern, right_values, right_pattern);
  const c10::cuda::CUDAGuard guard(q.device());
  const Side left{left_values, left_pattern}, right{right_values, right_pattern};
  const at::ScalarType type = accumulation_type(q.scalar_type());
  const Tensor values = with_ones(v, type), queries = q.to(type), keys = k.to(type);
  const Tensor grad = at::cat({grad_numerator.to(type), grad_denominator.to(type).unsqueeze(-1)}, -1);
  const Tensor dq = at::empty_like(queries), dk = at::empty_like(keys);
  Tensor dv = at::zeros_like(values), dleft = at::zeros_like(left_values), dright = at::zeros_like(right_values);
  const int64_t width = slice_width(values);
  for (int64_t s = 0; s < q.size(3); s += width) {
    const int64_t count = std::min(width, q.size(3) - s);
    const Tensor k_slice = keys.narrow(3, s, count), x = column_products(k_slice, values);
    const Tensor dy = column_products(queries.narrow(3, s, count), grad);
    const Tensor z = right.transposed_times(x), dz = left.transposed_times(dy);
    dq.narrow(3, s, count).copy_(sum_over_values(left.times(z), grad));
    const Tensor dx = right.times(dz);
    dk.narrow(3, s, count).copy_(sum_over_values(dx, values));
    dv += sum_over_features(dx, k_slice);
    if (want_left) dleft += left.gradient(dy, z);
    if (want_right) dright += right.gradient(x, dz);
  }
  const auto narrow = q.scalar_type();
  return {dq.to(narrow), dk.to(narrow), dv.narrow(3, 0, v.size(3)).to(narrow).contiguous(),
          want_left ? dleft : at::empty({0, 0}, left_values.options()),
          want_right ? dright : at::empty({0, 0}, right_values.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("factored_product", multiply_cuda);
  m.impl("factored_product_backward", backward_cuda);
}

}  // namespace topomask::ops::factored_product
