#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/walk_features/op.h"

namespace topomask::ops::walk_features {

namespace {

using at::Tensor;

/// ∂⟨grad, features⟩/∂loads: f_hop times the gradient of its entry, for each triple, summed over the heads in order.
Tensor load_gradients(const Tensor& grad, const Tensor& f, const Tensor& hops, const Tensor& offsets, double scale) {
  const Tensor counts = offsets.diff(), entry = at::repeat_interleave(counts);
  const Tensor padded = at::constant_pad_nd(f, {0, 1}), term = hops.to(at::kLong).clamp_max_(f.size(1));
  Tensor total = at::zeros(hops.sizes(), grad.options());
  for (int64_t h = 0; h < f.size(0); ++h) {
    total.addcmul_(grad[h].index_select(0, entry), padded[h].index_select(0, term), scale);
  }
  return total;
}

/// The features are linear in f, so each of the two is the other's gradient.
class WalkFeatures : public torch::autograd::Function<WalkFeatures> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& f, const Tensor& hops, const Tensor& loads,
                        const Tensor& offsets, double scale) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({hops, loads, offsets, loads.requires_grad() ? f : Tensor()});
    ctx->saved_data["terms"] = f.sym_size(1);
    ctx->saved_data["scale"] = scale;
    return values(f, hops, loads, offsets, scale);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const double scale = ctx->saved_data["scale"].toDouble();
    Tensor of_function, of_loads;
    if (ctx->needs_input_grad(0)) {
      of_function =
          walk_features::backward(grads[0], saved[0], saved[1], saved[2], ctx->saved_data["terms"].toSymInt(), scale);
    }
    if (ctx->needs_input_grad(2)) of_loads = load_gradients(grads[0], saved[3], saved[0], saved[2], scale);
    return {of_function, {}, of_loads, {}, {}};
  }
};

class WalkFeaturesBackward : public torch::autograd::Function<WalkFeaturesBackward> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& grad, const Tensor& hops,
                        const Tensor& loads, const Tensor& offsets, const c10::SymInt& terms, double scale) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({hops, loads, offsets});
    ctx->saved_data["scale"] = scale;
    return walk_features::backward(grad, hops, loads, offsets, terms, scale);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    return {values(grads[0], saved[0], saved[1], saved[2], ctx->saved_data["scale"].toDouble()), {}, {}, {}, {}, {}};
  }
};

Tensor walk_features_autograd(const Tensor& f, const Tensor& hops, const Tensor& loads, const Tensor& feature_offsets,
                              double scale) {
  return WalkFeatures::apply(f, hops, loads, feature_offsets, scale);
}

Tensor walk_features_backward_autograd(const Tensor& grad, const Tensor& hops, const Tensor& loads,
                                       const Tensor& feature_offsets, c10::SymInt terms, double scale) {
  return WalkFeaturesBackward::apply(grad, hops, loads, feature_offsets, terms, scale);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("walk_features", walk_features_autograd);
  m.impl("walk_features_backward", walk_features_backward_autograd);
}

}  // namespace topomask::ops::walk_features
