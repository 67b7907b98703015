#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>

#include "core/parallel.h"
#include "core/recycled.h"
#include "ops/row_layout.h"
#include "ops/sparse_attention/cpu_kernel.h"
#include "ops/sparse_attention/op.h"

namespace topomask::ops::sparse_attention {

namespace {

// On checked tensors in the kernels' layout (see to_kernel_layout).

struct AttentionResult {
  at::Tensor out;
  at::Tensor row_max;  ///< undefined for kernel attention
  at::Tensor denominator;
  at::Tensor scores;  ///< e_ij [B, H, entries] where it is kept for the backward pass; otherwise undefined
};

struct AttentionGradients {
  at::Tensor q, k, v;
  at::Tensor values;  ///< undefined where it is not wanted
};

/// Two scalars per entry wait between the passes of the backward: slices are taken in groups that fit, one at least.
constexpr int64_t kScratchBytes = int64_t{64} << 20;

/// Results larger than a last-level cache are out of it by the time they are read: they are written past it.
bool worth_streaming(std::initializer_list<at::Tensor> results) {
  constexpr size_t kBeyondCaches = size_t{32} << 20;
  return std::all_of(results.begin(), results.end(), [](const at::Tensor& result) {
    return result.nbytes() > kBeyondCaches && reinterpret_cast<uintptr_t>(result.data_ptr()) % kStreamAlignment == 0;
  });
}

/// An eps below the smallest normal number would let 1/D overflow.
template <class T>
T kernel_eps(double eps) {
  return std::max(static_cast<T>(eps), std::numeric_limits<T>::min());
}

template <class T>
void run_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& values,
                 const PatternTensors& pattern, const Rule& rule, const AttentionResult& result) {
  const int64_t heads = q.size(1), rows = pattern.rows(), cols = pattern.cols(), entries = pattern.entries();
  const int64_t value_stride = values.size(0) == 1 ? 0 : values.size(1);
  AttentionArgs<T> shared{};
  shared.offsets = pattern.offsets.const_data_ptr<int64_t>();
  shared.columns = pattern.columns.const_data_ptr<int32_t>();
  shared.values = values.const_data_ptr<T>();
  shared.q = q.const_data_ptr<T>();
  shared.k = k.const_data_ptr<T>();
  shared.v = v.const_data_ptr<T>();
  shared.out = result.out.mutable_data_ptr<T>();
  shared.row_max = rule.softmax ? result.row_max.mutable_data_ptr<T>() : nullptr;
  shared.denominator = result.denominator.mutable_data_ptr<T>();
  shared.kept = result.scores.defined() ? result.scores.mutable_data_ptr<T>() : nullptr;
  shared.features = q.size(3);
  shared.value_dim = v.size(3);
  shared.scale = static_cast<T>(rule.scale);
  shared.eps = kernel_eps<T>(rule.eps);
  shared.streaming = worth_streaming({result.out});
  const int64_t work = shared.features + shared.value_dim;
  for_row_ranges(shared.offsets, rows, q.size(0) * heads, work, [&](int64_t slice, int64_t begin, int64_t end) {
    RowBuffers<T> buffers(shared.offsets, begin, end, 1, kBlockEntries);
    AttentionArgs<T> args = shared;
    args.values += slice % heads * value_stride;
    args.q += slice * rows * args.features;
    args.k += slice * cols * args.features;
    args.v += slice * cols * args.value_dim;
    args.out += slice * rows * args.value_dim;
    if (args.row_max) args.row_max += slice * rows;
    args.denominator += slice * rows;
    if (args.kept) args.kept += slice * entries;
    args.scores = buffers[0];
    if (rule.softmax) {
      sparse_softmax_attention_rows(args, begin, end);
    } else {
      sparse_attention_rows(args, begin, end);
    }
  });
}

template <class T>
class Backward {
 public:
  Backward(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
           const at::Tensor& values, const PatternTensors& pattern, const AttentionResult& result, const Rule& rule,
           const AttentionGradients& grads)
      : softmax_(rule.softmax),
        slices_(q.size(0) * q.size(1)),
        heads_(q.size(1)),
        value_heads_(values.size(0)),
        rows_(pattern.rows()),
        cols_(pattern.cols()),
        entries_(pattern.entries()) {
    by_row_.offsets = pattern.offsets.const_data_ptr<int64_t>();
    by_row_.columns = pattern.columns.const_data_ptr<int32_t>();
    by_row_.values = values.const_data_ptr<T>();
    by_row_.grad_out = grad_out.const_data_ptr<T>();
    by_row_.q = q.const_data_ptr<T>();
    by_row_.k = k.const_data_ptr<T>();
    by_row_.v = v.const_data_ptr<T>();
    by_row_.row_max = rule.softmax ? result.row_max.const_data_ptr<T>() : nullptr;
    by_row_.denominator = result.denominator.const_data_ptr<T>();
    by_row_.grad_q = grads.q.mutable_data_ptr<T>();
    by_row_.grad_values = grads.values.defined() ? grads.values.mutable_data_ptr<T>() : nullptr;
    by_row_.kept = result.scores.defined() ? result.scores.const_data_ptr<T>() : nullptr;
    by_row_.features = q.size(3);
    by_row_.value_dim = v.size(3);
    by_row_.scale = static_cast<T>(rule.scale);
    by_row_.eps = kernel_eps<T>(rule.eps);
    by_row_.streaming = worth_streaming({grads.q});
    by_column_.t_offsets = pattern.t_offsets.const_data_ptr<int64_t>();
    by_column_.t_columns = pattern.t_columns.const_data_ptr<int32_t>();
    by_column_.t_index = pattern.t_index.const_data_ptr<int64_t>();
    by_column_.grad_out = by_row_.grad_out;
    by_column_.q = by_row_.q;
    by_column_.grad_k = grads.k.mutable_data_ptr<T>();
    by_column_.grad_v = grads.v.mutable_data_ptr<T>();
    by_column_.features = q.size(3);
    by_column_.value_dim = v.size(3);
    by_column_.streaming = worth_streaming({grads.k, grads.v});
  }

  void run(const at::TensorOptions& options) {
    const int64_t slice_bytes = std::max<int64_t>(1, 2 * entries_ * static_cast<int64_t>(sizeof(T)));
    const int64_t group = std::clamp<int64_t>(kScratchBytes / slice_bytes, 1, std::max<int64_t>(1, slices_));
    const at::Tensor scratch = recycled_empty({group, entries_, 2}, options);
    by_row_.entries = scratch.mutable_data_ptr<T>();
    by_column_.entries = by_row_.entries;
    for (int64_t first = 0; first < slices_; first += group) {
      const int64_t last = std::min(slices_, first + group);
      pass_over_rows(first, last);
      pass_over_columns(first, last);
    }
  }

 private:
  /// A task owns its rows in every slice of the group: grad_values needs no atomics and its sums have one order.
  void pass_over_rows(int64_t first, int64_t last) {
    const int64_t work = (last - first) * ((by_row_.kept ? 1 : 2) * by_row_.features + by_row_.value_dim);
    for_row_ranges(by_row_.offsets, rows_, 1, work, [&](int64_t, int64_t begin, int64_t end) {
      RowBuffers<T> buffers(by_row_.offsets, begin, end, 2, kBlockEntries);
      for (int64_t slice = first; slice < last; ++slice) {
        AttentionBackwardArgs<T> args = by_row_;
        const int64_t head = value_heads_ == 1 ? 0 : slice % heads_;
        args.values += head * entries_;
        args.grad_out += slice * rows_ * args.value_dim;
        args.q += slice * rows_ * args.features;
        args.k += slice * cols_ * args.features;
        args.v += slice * cols_ * args.value_dim;
        if (args.row_max) args.row_max += slice * rows_;
        args.denominator += slice * rows_;
        if (args.kept) args.kept += slice * entries_;
        args.grad_q += slice * rows_ * args.features;
        if (args.grad_values) args.grad_values += head * entries_;
        args.accumulate_values = slice >= value_heads_;
        args.entries += (slice - first) * entries_ * 2;
        args.scores = buffers[0];
        args.products = buffers[1];
        if (softmax_) {
          sparse_softmax_attention_backward_rows(args, begin, end);
        } else {
          sparse_attention_backward_rows(args, begin, end);
        }
      }
    });
  }

  void pass_over_columns(int64_t first, int64_t last) {
    const int64_t work = by_column_.features + by_column_.value_dim;
    for_row_ranges(by_column_.t_offsets, cols_, last - first, work, [&](int64_t place, int64_t begin, int64_t end) {
      RowBuffers<T> buffers(by_column_.t_offsets, begin, end, 2, kBlockEntries);
      const int64_t slice = first + place;
      AttentionColumnArgs<T> args = by_column_;
      args.entries += place * entries_ * 2;
      args.grad_out += slice * rows_ * args.value_dim;
      args.q += slice * rows_ * args.features;
      args.grad_k += slice * cols_ * args.features;
      args.grad_v += slice * cols_ * args.value_dim;
      args.key_weights = buffers[0];
      args.value_weights = buffers[1];
      sparse_attention_backward_columns(args, begin, end);
    });
  }

  bool softmax_;
  int64_t slices_, heads_, value_heads_, rows_, cols_, entries_;
  AttentionBackwardArgs<T> by_row_{};
  AttentionColumnArgs<T> by_column_{};
};

AttentionResult attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& values,
                       const PatternTensors& pattern, const Rule& rule, bool keep_scores) {
  const int64_t batch = q.size(0), heads = q.size(1), rows = pattern.rows();
  AttentionResult result;
  result.out = recycled_empty({batch, heads, rows, v.size(3)}, v.options());
  if (rule.softmax) result.row_max = recycled_empty({batch, heads, rows}, v.options());
  result.denominator = recycled_empty({batch, heads, rows}, v.options());
  if (keep_scores) result.scores = recycled_empty({batch, heads, pattern.entries()}, v.options());
  if (q.scalar_type() == at::kFloat) {
    run_forward<float>(q, k, v, values, pattern, rule, result);
  } else {
    run_forward<double>(q, k, v, values, pattern, rule, result);
  }
  return result;
}

AttentionGradients gradients(const at::Tensor& grad_out, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& values, const PatternTensors& pattern, const AttentionResult& result,
                             const Rule& rule, bool want_values) {
  AttentionGradients grads{recycled_empty(q.sizes(), q.options()),
                           recycled_empty(k.sizes(), k.options()),
                           recycled_empty(v.sizes(), v.options()),
                           {}};
  if (want_values)
    grads.values =
        q.size(0) * q.size(1) > 0 ? recycled_empty(values.sizes(), values.options()) : at::zeros_like(values);
  if (q.scalar_type() == at::kFloat) {
    Backward<float>(grad_out, q, k, v, values, pattern, result, rule, grads).run(q.options());
  } else {
    Backward<double>(grad_out, q, k, v, values, pattern, result, rule, grads).run(q.options());
  }
  return grads;
}

using at::Tensor;
using at::TensorList;

Four forward_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, TensorList tensors,
                 bool softmax, double scale, double eps, bool keep_scores, bool nodes_first) {
  const Rule rule{softmax, scale, eps};
  const PatternTensors pattern = check(q, k, v, values, tensors, rule);
  const AttentionResult result = attend(to_kernel_layout(q), to_kernel_layout(k), to_kernel_layout(v),
                                        values.contiguous(), pattern, rule, keep_scores);
  const auto or_empty = [&](const Tensor& t) { return t.defined() ? t : at::empty({0}, values.options()); };
  return {in_row_layout(from_kernel_layout(result.out, v.size(3), v.scalar_type()), nodes_first),
          or_empty(result.row_max), result.denominator, or_empty(result.scores)};
}

Four backward_cpu(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                  TensorList tensors, TensorList results, bool softmax, double scale, double eps, bool want_values) {
  const Rule rule{softmax, scale, eps};
  const PatternTensors pattern = check(q, k, v, values, tensors, rule);
  check_results(results);
  AttentionResult result;
  if (softmax) result.row_max = results[1].contiguous();
  result.denominator = results[2].contiguous();
  if (results[3].numel() > 0) result.scores = results[3].contiguous();
  const AttentionGradients grads =
      gradients(to_kernel_layout(grad_out), to_kernel_layout(q), to_kernel_layout(k), to_kernel_layout(v),
                values.contiguous(), pattern, result, rule, want_values);
  return {from_kernel_layout(grads.q, q.size(3), q.scalar_type()),
          from_kernel_layout(grads.k, k.size(3), k.scalar_type()),
          from_kernel_layout(grads.v, v.size(3), v.scalar_type()),
          want_values ? grads.values : at::empty({0, 0}, values.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("sparse_attention_forward", forward_cpu);
  m.impl("sparse_attention_backward", backward_cpu);
}

}  // namespace topomask::ops::sparse_attention
