#include "ops/spmm/cpu.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/parallel.h"
#include "core/recycled.h"
#include "ops/factored_product/cpu_kernel.h"
#include "ops/factored_product/op.h"

// On checked tensors in the kernels' layout (see to_kernel_layout). The numerator streams over slices S of the
// features: Z = Φ₂ᵀ[k_S ⊗ v] is [r, |S|, d], and row i of Φ₁Z is contracted with q_iS at once, so that memory is
// O(r·|S|·d) with |S|·d about 128. The denominator is q_i · (Φ₁Φ₂ᵀk)_i.

namespace topomask::ops::factored_product {

namespace {

/// Φ [N, r]: contiguous values [1 or H, entries] over a pattern.
struct FactorSide {
  at::Tensor values;
  const PatternTensors& pattern;
};

struct FactoredProduct {
  at::Tensor numerator;    ///< [B, H, N, d]
  at::Tensor denominator;  ///< [B, H, N]
};

struct FactoredGradients {
  at::Tensor q, k, v;
  at::Tensor left, right;  ///< undefined where not wanted
};

/// |S|·d, in scalars: eight vectors of 64 bytes of float, the tile the row primitives hold in registers.
constexpr int64_t kBlockScalars = 128;
/// Slices (b, h) go through the kernels in groups whose Z fits the last cache; one at least.
constexpr int64_t kScratchBytes = int64_t{16} << 20;

/// One group of slices and one slice of the features.
struct Step {
  int64_t first_slice, last_slice;
  int64_t first_feature, feature_count;
};

template <class T>
T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<T>() : nullptr;
}

/// Z of a group: [slices of the group, r, |S|, width].
template <class T>
void outer_gather(const FactorSide& side, const at::Tensor& features, const at::Tensor& x, const at::Tensor& z,
                  const Step& step) {
  const PatternTensors& pattern = side.pattern;
  const int64_t heads = x.size(1), nodes = x.size(2), rank = pattern.cols();
  const int64_t value_stride = side.values.size(0) == 1 ? 0 : pattern.entries();
  OuterGatherArgs<T> shared{};
  shared.offsets = pattern.t_offsets.const_data_ptr<int64_t>();
  shared.columns = pattern.t_columns.const_data_ptr<int32_t>();
  shared.index = pattern.t_index.const_data_ptr<int64_t>();
  shared.values = side.values.const_data_ptr<T>();
  shared.features = features.const_data_ptr<T>() + step.first_feature;
  shared.feature_stride = features.size(3);
  shared.feature_count = step.feature_count;
  shared.x = x.const_data_ptr<T>();
  shared.width = x.size(3);
  shared.z = z.mutable_data_ptr<T>();
  const int64_t block = step.feature_count * shared.width;
  for_row_ranges(shared.offsets, rank, step.last_slice - step.first_slice, block,
                 [&](int64_t place, int64_t begin, int64_t end) {
                   RowBuffers<T> buffers(shared.offsets, begin, end, 2);
                   const int64_t slice = step.first_slice + place;
                   OuterGatherArgs<T> args = shared;
                   args.values += slice % heads * value_stride;
                   args.features += slice * nodes * args.feature_stride;
                   args.x += slice * nodes * args.width;
                   args.z += place * rank * block;
                   args.weights = buffers[0];
                   args.row_features = buffers[1];
                   outer_gather_rows(args, begin, end);
                 });
}

/// Outputs of gather_contract; the undefined ones are not computed.
struct Contraction {
  at::Tensor product, grad_features, grad_values;
};

template <class T>
void gather_contract(const FactorSide& side, const at::Tensor& features, const at::Tensor& x, const at::Tensor& z,
                     const Step& step, const Contraction& outputs) {
  const PatternTensors& pattern = side.pattern;
  const int64_t heads = features.size(1), nodes = features.size(2), rank = pattern.cols(), width = x.size(3);
  const int64_t value_heads = side.values.size(0), entries = pattern.entries();
  GatherContractArgs<T> shared{};
  shared.offsets = pattern.offsets.const_data_ptr<int64_t>();
  shared.columns = pattern.columns.const_data_ptr<int32_t>();
  shared.values = side.values.const_data_ptr<T>();
  shared.features = features.const_data_ptr<T>() + step.first_feature;
  shared.feature_stride = features.size(3);
  shared.feature_count = step.feature_count;
  shared.z = z.const_data_ptr<T>();
  shared.x = x.const_data_ptr<T>();
  shared.width = width;
  shared.product = data_or_null<T>(outputs.product);
  shared.grad_features = data_or_null<T>(outputs.grad_features);
  shared.grad_values = data_or_null<T>(outputs.grad_values);
  shared.accumulate_product = step.first_feature > 0;
  const int64_t block = step.feature_count * width, slices = step.last_slice - step.first_slice;
  const bool needs_x = shared.grad_features || shared.grad_values;

  const auto run = [&](int64_t first, int64_t last, int64_t begin, int64_t end) {
    RowBuffers<T> buffers(shared.offsets, begin, end, 1);
    const auto gathered = std::make_unique_for_overwrite<T[]>(2 * block);
    for (int64_t slice = first; slice < last; ++slice) {
      const int64_t head = value_heads == 1 ? 0 : slice % heads;
      GatherContractArgs<T> args = shared;
      args.values += head * entries;
      args.features += slice * nodes * args.feature_stride;
      args.z += (slice - step.first_slice) * rank * block;
      if (needs_x) args.x += slice * nodes * width;
      if (args.product) args.product += slice * nodes * width;
      if (args.grad_features) args.grad_features += slice * nodes * args.feature_stride + step.first_feature;
      if (args.grad_values) args.grad_values += head * entries;
      args.accumulate_values = step.first_feature > 0 || slice >= value_heads;
      args.gathered = gathered.get();
      args.dots = buffers[0];
      gather_contract_rows(args, begin, end);
    }
  };
  if (shared.grad_values) {
    // A task owns its rows in every slice: sums over slices need no atomics and have one order.
    for_row_ranges(shared.offsets, nodes, 1, 2 * block * slices,
                   [&](int64_t, int64_t begin, int64_t end) { run(step.first_slice, step.last_slice, begin, end); });
  } else {
    for_row_ranges(shared.offsets, nodes, slices, block, [&](int64_t place, int64_t begin, int64_t end) {
      run(step.first_slice + place, step.first_slice + place + 1, begin, end);
    });
  }
}

/// Calls f(step, z, dz) for every group of slices and slice of the features; dz only where asked.
template <class F>
void for_each_step(const at::Tensor& q, const at::Tensor& v, int64_t rank, bool with_gradient, const F& f) {
  const int64_t slices = q.size(0) * q.size(1), features = q.size(3), width = v.size(3);
  const int64_t per_step =
      std::clamp<int64_t>(width == 0 ? kMaxFeatureCount : kBlockScalars / width, 1, kMaxFeatureCount);
  const int64_t slice_bytes = std::max<int64_t>(1, rank * per_step * width * v.element_size());
  const int64_t group = std::clamp<int64_t>(kScratchBytes / slice_bytes, 1, std::max<int64_t>(1, slices));
  const at::Tensor z = recycled_empty({group, rank, per_step * width}, v.options());
  const at::Tensor dz = with_gradient ? recycled_empty(z.sizes(), z.options()) : at::Tensor();
  for (int64_t slice = 0; slice < slices; slice += group) {
    for (int64_t feature = 0; feature < features; feature += per_step) {
      f(Step{slice, std::min(slices, slice + group), feature, std::min(per_step, features - feature)}, z, dz);
    }
  }
}

template <class T>
void run_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const FactorSide& left,
                 const FactorSide& right, const at::Tensor& numerator) {
  for_each_step(q, v, right.pattern.cols(), false, [&](const Step& step, const at::Tensor& z, const at::Tensor&) {
    outer_gather<T>(right, k, v, z, step);
    gather_contract<T>(left, q, numerator, z, step, {numerator, {}, {}});
  });
}

template <class T>
void run_backward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const FactorSide& left, const FactorSide& right, const FactoredGradients& grads) {
  for_each_step(q, v, right.pattern.cols(), true, [&](const Step& step, const at::Tensor& z, const at::Tensor& dz) {
    outer_gather<T>(right, k, v, z, step);
    gather_contract<T>(left, q, grad, z, step, {{}, grads.q, grads.left});
    outer_gather<T>(left, q, grad, dz, step);
    gather_contract<T>(right, k, v, dz, step, {grads.v, grads.k, grads.right});
  });
}

at::Tensor times(const FactorSide& side, const at::Tensor& x) {
  return spmm::spmm_plain(side.values, x, side.pattern.offsets, side.pattern.columns);
}

at::Tensor transposed_times(const FactorSide& side, const at::Tensor& x) {
  return spmm::spmm_plain(side.values, x, side.pattern.t_offsets, side.pattern.t_columns, side.pattern.t_index);
}

at::Tensor entry_products(const FactorSide& side, const at::Tensor& a, const at::Tensor& b) {
  return spmm::sddmm_plain(a, b, side.pattern.offsets, side.pattern.columns, side.values.size(0));
}

FactoredProduct product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const FactorSide& left,
                        const FactorSide& right) {
  FactoredProduct result;
  // Without features there is no step to write it.
  result.numerator = recycled_empty({q.size(0), q.size(1), q.size(2), v.size(3)}, v.options());
  if (q.size(3) == 0) result.numerator.zero_();
  if (q.scalar_type() == at::kFloat) {
    run_forward<float>(q, k, v, left, right, result.numerator);
  } else {
    run_forward<double>(q, k, v, left, right, result.numerator);
  }
  result.denominator = times(left, transposed_times(right, k)).mul_(q).sum(-1);
  return result;
}

FactoredGradients gradients(const at::Tensor& grad_numerator, const at::Tensor& grad_denominator, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v, const FactorSide& left, const FactorSide& right,
                            bool want_left, bool want_right) {
  FactoredGradients grads{at::empty_like(q), at::empty_like(k), at::zeros_like(v), {}, {}};
  if (want_left) grads.left = at::zeros_like(left.values);
  if (want_right) grads.right = at::zeros_like(right.values);
  if (q.scalar_type() == at::kFloat) {
    run_backward<float>(grad_numerator, q, k, v, left, right, grads);
  } else {
    run_backward<double>(grad_numerator, q, k, v, left, right, grads);
  }
  // The denominator is Σ_s q_is y_is with y = Φ₁z, z = Φ₂ᵀk.
  const at::Tensor z = transposed_times(right, k);
  const at::Tensor grad = grad_denominator.unsqueeze(-1);
  grads.q.add_(times(left, z).mul_(grad));
  const at::Tensor grad_y = q * grad;
  const at::Tensor grad_z = transposed_times(left, grad_y);
  grads.k.add_(times(right, grad_z));
  if (want_left) grads.left.add_(entry_products(left, grad_y, z));
  if (want_right) grads.right.add_(entry_products(right, k, grad_z));
  return grads;
}

using at::Tensor;
using at::TensorList;

Two multiply_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& left_values, TensorList left,
                 const Tensor& right_values, TensorList right) {
  const Sides sides = check(q, k, v, left_values, left, right_values, right);
  const FactoredProduct result =
      product(to_kernel_layout(q), to_kernel_layout(k), to_kernel_layout(v), {left_values.contiguous(), sides.left},
              {right_values.contiguous(), sides.right});
  return {from_kernel_layout(result.numerator, v.size(3), result.numerator.scalar_type()), result.denominator};
}

Five backward_cpu(const Tensor& grad_numerator, const Tensor& grad_denominator, const Tensor& q, const Tensor& k,
                  const Tensor& v, const Tensor& left_values, TensorList left, const Tensor& right_values,
                  TensorList right, bool want_left, bool want_right) {
  const Sides sides = check(q, k, v, left_values, left, right_values, right);
  const FactoredGradients grads =
      gradients(to_kernel_layout(grad_numerator), grad_denominator.contiguous(), to_kernel_layout(q),
                to_kernel_layout(k), to_kernel_layout(v), {left_values.contiguous(), sides.left},
                {right_values.contiguous(), sides.right}, want_left, want_right);
  return {from_kernel_layout(grads.q, q.size(3), q.scalar_type()),
          from_kernel_layout(grads.k, k.size(3), k.scalar_type()),
          from_kernel_layout(grads.v, v.size(3), v.scalar_type()),
          want_left ? grads.left : at::empty({0, 0}, left_values.options()),
          want_right ? grads.right : at::empty({0, 0}, right_values.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("factored_product", multiply_cpu);
  m.impl("factored_product_backward", backward_cpu);
}

}  // namespace topomask::ops::factored_product
