#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "attention/column_tensors.h"
#include "attention/factored_product.h"
#include "core/checks.h"

// The features route on the GPU, from the sparse products there: the same streaming over slices of the features.

namespace topomask {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

/// One side Φ of the factors as the operators take it.
class Side {
 public:
  Side(Tensor values, Tensor offsets, Tensor columns, Tensor t_offsets, Tensor t_columns, Tensor t_index)
      : values_(std::move(values)),
        offsets_(std::move(offsets)),
        columns_(std::move(columns)),
        t_offsets_(std::move(t_offsets)),
        t_columns_(std::move(t_columns)),
        t_index_(std::move(t_index)) {}

  Tensor times(const Tensor& x) const { return product("topomask::spmm", x); }                        // Φ·x
  Tensor transposed_times(const Tensor& x) const { return product("topomask::spmm_transposed", x); }  // Φᵀ·x

  /// ∂⟨a, Φ·b⟩/∂Φ
  Tensor gradient(const Tensor& a, const Tensor& b) const {
    using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, c10::SymInt);
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow("topomask::sddmm", "")
        .typed<Signature>()
        .call(a, b, offsets_, columns_, values_.size(0));
  }

  at::TensorOptions options() const { return values_.options(); }

 private:
  Tensor product(const char* op, const Tensor& x) const {
    using Signature =
        Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
    return c10::Dispatcher::singleton().findSchemaOrThrow(op, "").typed<Signature>().call(
        values_, x, offsets_, columns_, t_offsets_, t_columns_, t_index_);
  }

  Tensor values_, offsets_, columns_, t_offsets_, t_columns_, t_index_;
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

Two product_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& left_values,
                 const Tensor& left_offsets, const Tensor& left_columns, const Tensor& left_t_offsets,
                 const Tensor& left_t_columns, const Tensor& left_t_index, const Tensor& right_values,
                 const Tensor& right_offsets, const Tensor& right_columns, const Tensor& right_t_offsets,
                 const Tensor& right_t_columns, const Tensor& right_t_index) {
  const PatternTensors left_pattern("factored_product", left_offsets, left_columns, left_t_offsets, left_t_columns,
                                    left_t_index);
  const PatternTensors right_pattern("factored_product", right_offsets, right_columns, right_t_offsets, right_t_columns,
                                     right_t_index);
  check_factored_product(q, k, v, left_values, left_pattern, right_values, right_pattern);
  const c10::cuda::CUDAGuard guard(q.device());
  const Side left(left_values, left_offsets, left_columns, left_t_offsets, left_t_columns, left_t_index);
  const Side right(right_values, right_offsets, right_columns, right_t_offsets, right_t_columns, right_t_index);
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

Five product_backward_cuda(const Tensor& grad_numerator, const Tensor& grad_denominator, const Tensor& q,
                           const Tensor& k, const Tensor& v, const Tensor& left_values, const Tensor& left_offsets,
                           const Tensor& left_columns, const Tensor& left_t_offsets, const Tensor& left_t_columns,
                           const Tensor& left_t_index, const Tensor& right_values, const Tensor& right_offsets,
                           const Tensor& right_columns, const Tensor& right_t_offsets, const Tensor& right_t_columns,
                           const Tensor& right_t_index, bool want_left, bool want_right) {
  const c10::cuda::CUDAGuard guard(q.device());
  const Side left(left_values, left_offsets, left_columns, left_t_offsets, left_t_columns, left_t_index);
  const Side right(right_values, right_offsets, right_columns, right_t_offsets, right_t_columns, right_t_index);
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
          want_left ? dleft : at::empty({0, 0}, left.options()),
          want_right ? dright : at::empty({0, 0}, right.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("factored_product", product_cuda);
  m.impl("factored_product_backward", product_backward_cuda);
}

}  // namespace topomask
