#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/hop_pairs/op.h"

namespace topomask::ops::hop_pairs {

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class PairValues : public torch::autograd::Function<PairValues> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& g, const Tensor& offsets, const Tensor& pairs,
                        const Tensor& sums) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({offsets, pairs, sums});
    ctx->saved_data["count"] = g.sym_size(1);
    return values(g, offsets, pairs, sums);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    return {
        hop_pairs::backward(grads[0], saved[0], saved[1], saved[2], ctx->saved_data["count"].toSymInt()), {}, {}, {}};
  }
};

Tensor values_autograd(const Tensor& g, const Tensor& offsets, const Tensor& pairs, const Tensor& sums) {
  return PairValues::apply(g, offsets, pairs, sums);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("hop_pair_values", values_autograd);
  m.impl("hop_pair_values_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask::ops::hop_pairs
