#include "masks/global_tokens/bordered.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>

#include "core/checks.h"
#include "graph/csr.h"

namespace topomask {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Spreads values [..., entries] over a longer row of ones; distinct places, so the gradient is a plain gather.
struct Spread : torch::autograd::Function<Spread> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& values, const at::Tensor& places, int64_t entries) {
    ctx->save_for_backward({places});
    std::vector<int64_t> shape = values.sizes().vec();
    shape.back() = entries;
    return at::ones(shape, values.options()).index_copy_(-1, places, values);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {grads[0].index_select(-1, ctx->get_saved_variables()[0]), at::Tensor(), at::Tensor()};
  }
};

struct Bordered {
  PatternPtr pattern;
  at::Tensor places;
};

Bordered build(const SparsePattern& inner, const Border& border) {
  const int64_t rows = border.rows + inner.rows(), before = static_cast<int64_t>(border.before.size());
  checked_product("with_global_tokens", "the entries of the tokens' rows", {border.rows, border.full_columns},
                  kMaxEntries);
  checked_product("with_global_tokens", "the entries of the tokens' columns", {inner.rows(), before}, kMaxEntries);
  const int64_t entries = border.rows * border.full_columns + inner.rows() * before + inner.entries();
  at::Tensor offsets = at::empty({rows + 1}, at::kLong), columns = at::empty({entries}, at::kInt);
  at::Tensor places = at::empty({inner.entries()}, at::kLong);
  int64_t* offset = offsets.mutable_data_ptr<int64_t>();
  int32_t* column = columns.mutable_data_ptr<int32_t>();
  int64_t* place = places.mutable_data_ptr<int64_t>();
  const int64_t* inner_offset = inner.offsets().const_data_ptr<int64_t>();
  const int32_t* inner_column = inner.columns().const_data_ptr<int32_t>();
  int64_t written = 0;
  for (int64_t i = 0; i < border.rows; ++i) {
    offset[i] = written;
    std::iota(column + written, column + written + border.full_columns, 0);
    written += border.full_columns;
  }
  for (int64_t i = 0; i < inner.rows(); ++i) {
    offset[border.rows + i] = written;
    for (int32_t c : border.before) column[written++] = c;
    for (int64_t e = inner_offset[i]; e < inner_offset[i + 1]; ++e) {
      place[e] = written;
      column[written++] = static_cast<int32_t>(inner_column[e] + border.cols);
    }
  }
  offset[rows] = written;
  return {std::make_shared<SparsePattern>(rows, border.cols + inner.cols(), offsets, columns), places};
}

}  // namespace

SparseMatrix BorderedPattern::extend(const SparseMatrix& inner, const Border& border) const {
  const std::lock_guard lock(mutex_);
  if (inner_ != inner.pattern) {
    const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
    const at::Device device = inner.pattern->device();
    const auto [pattern, places] = build(*inner.pattern->to(at::kCPU), border);
    pattern_ = pattern->to(device);
    places_ = places.to(device);
    inner_ = inner.pattern;
  }
  return {pattern_, Spread::apply(inner.values, places_, pattern_->entries())};
}

at::Tensor bordered_dense(const at::Tensor& factor, int64_t tokens, std::vector<double> token,
                          std::vector<double> node) {
  const auto width = static_cast<int64_t>(token.size());
  std::vector<int64_t> shape = factor.sizes().vec();
  shape.back() = width;
  const at::Tensor nodes = at::tensor(node, factor.options().requires_grad(false)).expand(shape);
  shape[shape.size() - 2] = tokens;
  const at::Tensor globals = at::tensor(token, factor.options().requires_grad(false)).expand(shape);
  const at::Tensor above = at::constant_pad_nd(globals, {0, factor.size(-1)});
  return at::cat({above, at::cat({nodes, factor}, -1)}, -2);
}

}  // namespace topomask
