#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/table_lookup/op.h"

namespace topomask::ops::table_lookup {

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct TableLookup : torch::autograd::Function<TableLookup> {
  static Tensor forward(AutogradContext* ctx, const Tensor& table, const Tensor& index) {
    const at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({index});
    ctx->saved_data["size"] = table.sym_size(1);
    return lookup(table, index);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {sums(grads[0], ctx->get_saved_variables()[0], ctx->saved_data["size"].toSymInt()), {}};
  }
};

struct TableSums : torch::autograd::Function<TableSums> {
  static Tensor forward(AutogradContext* ctx, const Tensor& grad, const Tensor& index, const c10::SymInt& size) {
    const at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({index});
    return sums(grad, index, size);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {lookup(grads[0], ctx->get_saved_variables()[0]), {}, {}};
  }
};

Tensor table_lookup_autograd(const Tensor& table, const Tensor& index) {
  return TableLookup::apply(table, index);
}

Tensor table_sums_autograd(const Tensor& grad, const Tensor& index, c10::SymInt size) {
  return TableSums::apply(grad, index, size);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("table_lookup", table_lookup_autograd);
  m.impl("table_sums", table_sums_autograd);
}

}  // namespace topomask::ops::table_lookup
