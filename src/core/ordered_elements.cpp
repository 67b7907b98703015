#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "core/library_tasks.h"
#include "core/ordered_sums.h"

namespace topomask {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kTaskElements = 16384;

/// run(first, count) over blocks of rows, each by one thread. Vectorised functions round the end of what they are given
/// by another code than the rest of it, so that a block must be the same whatever the number of threads.
template <class Run>
void for_row_blocks(int64_t rows, int64_t columns, const Run& run) {
  const int64_t block = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, columns));
  for_library_tasks((rows + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) run(task * block, std::min(block, rows - task * block));
  });
}

struct OrderedMul : torch::autograd::Function<OrderedMul> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b) {
    ctx->save_for_backward({a, b});
    return a * b;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    variable_list result(2);
    if (ctx->needs_input_grad(0)) result[0] = grads[0] * saved[1];
    if (ctx->needs_input_grad(1)) result[1] = reduced_to(grads[0] * saved[0], saved[1].sizes());
    return result;
  }
};

struct OrderedAdd : torch::autograd::Function<OrderedAdd> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b) {
    ctx->saved_data["shape"] = b.sizes();
    return a + b;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto shape = ctx->saved_data["shape"].toIntVector();
    return {grads[0], ctx->needs_input_grad(1) ? reduced_to(grads[0], shape) : at::Tensor()};
  }
};

at::Tensor plain_exp(const at::Tensor& x) {
  const at::Tensor given = x.contiguous().view(-1), result = at::empty_like(given);
  for_row_blocks(given.numel(), 1, [&](int64_t first, int64_t count) {
    at::Tensor part = result.narrow(0, first, count);
    at::exp_out(part, given.narrow(0, first, count));
  });
  return result.view(x.sizes());
}

struct OrderedExp : torch::autograd::Function<OrderedExp> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x) {
    const at::Tensor result = plain_exp(x);
    ctx->save_for_backward({result});
    return result;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {grads[0] * ctx->get_saved_variables()[0]};
  }
};

/// Rows of a contiguous tensor.
at::Tensor rows_of(const at::Tensor& x) {
  return x.contiguous().view({x.numel() / x.size(-1), x.size(-1)});
}

at::Tensor plain_softmax(const at::Tensor& x) {
  if (x.numel() == 0) return at::empty(x.sizes(), x.options());
  const at::Tensor given = rows_of(x), result = at::empty_like(given);
  for_row_blocks(given.size(0), given.size(1), [&](int64_t first, int64_t count) {
    at::Tensor part = result.narrow(0, first, count);
    at::_softmax_out(part, given.narrow(0, first, count), -1, /*half_to_float=*/false);
  });
  return result.view(x.sizes());
}

struct OrderedSoftmax : torch::autograd::Function<OrderedSoftmax> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x) {
    const at::Tensor result = plain_softmax(x);
    ctx->save_for_backward({result});
    return result;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor result = ctx->get_saved_variables()[0];
    const at::ScalarType type = result.scalar_type();
    // Recorded, for a second derivative; by torch's own function.
    if (at::GradMode::is_enabled() || result.numel() == 0) {
      return {at::_softmax_backward_data(grads[0], result, -1, type)};
    }
    const at::Tensor weights = rows_of(result), slopes = rows_of(grads[0]), gradient = at::empty_like(weights);
    for_row_blocks(weights.size(0), weights.size(1), [&](int64_t first, int64_t count) {
      at::Tensor part = gradient.narrow(0, first, count);
      at::_softmax_backward_data_out(part, slopes.narrow(0, first, count), weights.narrow(0, first, count), -1, type);
    });
    return {gradient.view(result.sizes())};
  }
};

bool is_recorded(const at::Tensor& x) {
  return at::GradMode::is_enabled() && x.requires_grad();
}

}  // namespace

at::Tensor reduced_to(at::Tensor x, at::IntArrayRef shape) {
  const auto summed = [](const at::Tensor& t, int64_t axis) {
    at::Tensor total = t.size(axis) == 0 ? t.sum(axis) : t.select(axis, 0).clone();
    for (int64_t s = 1; s < t.size(axis); ++s) total += t.select(axis, s);
    return total;
  };
  while (x.dim() > std::ssize(shape)) x = summed(x, 0);
  for (int64_t axis = 0; axis < x.dim(); ++axis) {
    if (shape[axis] == 1 && x.size(axis) != 1) x = summed(x, axis).unsqueeze(axis);
  }
  return x;
}

at::Tensor ordered_mul(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cpu() && is_recorded(b) ? OrderedMul::apply(a, b) : a * b;
}

at::Tensor ordered_add(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cpu() && is_recorded(b) ? OrderedAdd::apply(a, b) : a + b;
}

at::Tensor ordered_exp(const at::Tensor& x) {
  if (!x.is_cpu()) return at::exp(x);
  return is_recorded(x) ? OrderedExp::apply(x) : plain_exp(x);
}

at::Tensor ordered_softmax(const at::Tensor& x) {
  if (!x.is_cpu()) return at::softmax(x, -1);
  return is_recorded(x) ? OrderedSoftmax::apply(x) : plain_softmax(x);
}

}  // namespace topomask
