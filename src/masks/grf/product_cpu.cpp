#include "masks/grf/product_cpu.h"

#include <ATen/ATen.h>

#include "core/parallel.h"
#include "masks/grf/product_kernel.h"

namespace topomask {
namespace {

template <class T>
ProductArgs<T> arguments(const CsrTensors& a, const CsrTensors& bt, const CsrTensors& out) {
  return {.a_offsets = a.offsets.const_data_ptr<int64_t>(),
          .a_columns = a.columns.const_data_ptr<int32_t>(),
          .bt_offsets = bt.offsets.const_data_ptr<int64_t>(),
          .bt_columns = bt.columns.const_data_ptr<int32_t>(),
          .bt_values = nullptr,
          .out_offsets = out.offsets.const_data_ptr<int64_t>(),
          .out_columns = out.columns.const_data_ptr<int32_t>(),
          .out_index = out.index.defined() ? out.index.const_data_ptr<int64_t>() : nullptr,
          .from = nullptr,
          .to = nullptr,
          .workspace = nullptr};
}

/// kernel(args, begin, end) over the rows of A for every head, each thread with a workspace of its own; [H, entries].
template <class T, class Kernel>
at::Tensor run(const at::Tensor& from, const at::Tensor& b, const CsrTensors& a_pattern, const CsrTensors& bt,
               const CsrTensors& out, int64_t b_rows, int64_t result_entries, const Kernel& kernel) {
  const at::Tensor bt_values = b.index_select(1, bt.index), source = from.contiguous();
  at::Tensor result = at::empty({b.size(0), result_entries}, b.options());
  constexpr int64_t kEntryWork = 16;  // a guess at the entries of a column of B
  const ProductArgs<T> shared = arguments<T>(a_pattern, bt, out);
  const T* values = bt_values.const_data_ptr<T>();
  const T* input = source.const_data_ptr<T>();
  T* output = result.mutable_data_ptr<T>();
  for_row_ranges(shared.a_offsets, a_pattern.offsets.size(0) - 1, b.size(0), kEntryWork,
                 [&](int64_t head, int64_t begin, int64_t end) {
                   const auto workspace = std::make_unique<T[]>(b_rows);
                   ProductArgs<T> args = shared;
                   args.bt_values = values + head * bt_values.size(1);
                   args.from = input + head * source.size(1);
                   args.to = output + head * result_entries;
                   args.workspace = workspace.get();
                   kernel(args, begin, end);
                 });
  return result;
}

constexpr auto kProduct = [](const auto& args, int64_t begin, int64_t end) { product_rows(args, begin, end); };
constexpr auto kGradient = [](const auto& args, int64_t begin, int64_t end) { product_grad_rows(args, begin, end); };

}  // namespace

at::Tensor product_plain(const at::Tensor& a, const at::Tensor& b, const CsrTensors& a_pattern, const CsrTensors& bt,
                         const CsrTensors& out, int64_t b_rows) {
  const int64_t entries = out.columns.size(0);
  return a.scalar_type() == at::kFloat ? run<float>(a, b, a_pattern, bt, out, b_rows, entries, kProduct)
                                       : run<double>(a, b, a_pattern, bt, out, b_rows, entries, kProduct);
}

at::Tensor product_grad_plain(const at::Tensor& grad, const at::Tensor& b, const CsrTensors& a_pattern,
                              const CsrTensors& bt, const CsrTensors& out, int64_t b_rows) {
  const int64_t entries = a_pattern.columns.size(0);
  return b.scalar_type() == at::kFloat ? run<float>(grad, b, a_pattern, bt, out, b_rows, entries, kGradient)
                                       : run<double>(grad, b, a_pattern, bt, out, b_rows, entries, kGradient);
}

}  // namespace topomask
