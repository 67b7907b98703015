#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/parallel.h"
#include "ops/sparse_product/cpu_kernel.h"
#include "ops/sparse_product/op.h"

namespace topomask::ops::sparse_product {
namespace {

template <class T>
ProductArgs<T> arguments(const ProductTensors& p) {
  return {.a_offsets = p.a.offsets.const_data_ptr<int64_t>(),
          .a_columns = p.a.columns.const_data_ptr<int32_t>(),
          .bt_offsets = p.bt.offsets.const_data_ptr<int64_t>(),
          .bt_columns = p.bt.columns.const_data_ptr<int32_t>(),
          .bt_values = nullptr,
          .out_offsets = p.out.offsets.const_data_ptr<int64_t>(),
          .out_columns = p.out.columns.const_data_ptr<int32_t>(),
          .out_index = p.out.index.defined() ? p.out.index.const_data_ptr<int64_t>() : nullptr,
          .from = nullptr,
          .to = nullptr,
          .workspace = nullptr};
}

/// kernel(args, begin, end) over the rows of A for every head, each thread with a workspace of its own; [H, entries].
template <class T, class Kernel>
at::Tensor run(const ProductTensors& p, int64_t result_entries, const Kernel& kernel) {
  const at::Tensor bt_values = p.b.index_select(1, p.bt.index), source = p.from.contiguous();
  at::Tensor result = at::empty({p.b.size(0), result_entries}, p.b.options());
  constexpr int64_t kEntryWork = 16;  // a guess at the entries of a column of B
  const ProductArgs<T> shared = arguments<T>(p);
  const T* values = bt_values.const_data_ptr<T>();
  const T* input = source.const_data_ptr<T>();
  T* output = result.mutable_data_ptr<T>();
  for_row_ranges(shared.a_offsets, p.a.offsets.size(0) - 1, p.b.size(0), kEntryWork,
                 [&](int64_t head, int64_t begin, int64_t end) {
                   const auto workspace = std::make_unique<T[]>(p.b_rows);
                   ProductArgs<T> args = shared;
                   args.bt_values = values + head * bt_values.size(1);
                   args.from = input + head * source.size(1);
                   args.to = output + head * result_entries;
                   args.workspace = workspace.get();
                   kernel(args, begin, end);
                 });
  return result;
}

template <class Kernel>
at::Tensor run(const ProductTensors& p, int64_t result_entries, const Kernel& kernel) {
  return p.b.scalar_type() == at::kFloat ? run<float>(p, result_entries, kernel)
                                         : run<double>(p, result_entries, kernel);
}

at::Tensor product(const ProductTensors& tensors) {
  return run(tensors, tensors.out.columns.size(0),
             [](const auto& args, int64_t begin, int64_t end) { product_rows(args, begin, end); });
}

at::Tensor product_grad(const ProductTensors& tensors) {
  return run(tensors, tensors.a.columns.size(0),
             [](const auto& args, int64_t begin, int64_t end) { product_grad_rows(args, begin, end); });
}

using at::Tensor;
using at::TensorList;

Tensor multiply_cpu(const Tensor& a, const Tensor& b, TensorList a_pattern, TensorList b_pattern, TensorList out) {
  return product(check_product(a, b, a_pattern, b_pattern, out));
}

Tensor gram_cpu(const Tensor& a, TensorList a_pattern, TensorList out) {
  return product(check_gram(a, a_pattern, out));
}

Tensor backward_cpu(const Tensor& grad, const Tensor& b, TensorList a_pattern, TensorList b_pattern, TensorList out,
                    bool transposed) {
  return product_grad(check_backward(grad, b, a_pattern, b_pattern, out, transposed));
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("sparse_product", multiply_cpu);
  m.impl("sparse_gram", gram_cpu);
  m.impl("sparse_product_backward", backward_cpu);
}

}  // namespace topomask::ops::sparse_product
