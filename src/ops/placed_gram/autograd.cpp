#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/pattern.h"
#include "ops/placed_gram/op.h"

namespace topomask::ops::placed_gram {

namespace {

using at::Tensor;
using at::TensorList;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class PlacedGram : public torch::autograd::Function<PlacedGram> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& values, TensorList a, TensorList out, const Tensor& starts,
                        const Tensor& places) {
    at::AutoDispatchBelowADInplaceOrView below;
    variable_list saved{values, starts, places};
    saved.insert(saved.end(), a.begin(), a.end());
    saved.insert(saved.end(), out.begin(), out.end());
    ctx->save_for_backward(std::move(saved));
    return gram(values, a, out, starts, places);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const TensorList patterns = TensorList(saved).slice(3);
    variable_list result(saved.size());
    result[0] = placed_gram::backward(grads[0], saved[0], patterns.slice(0, PatternTensors::kBoth),
                                      patterns.slice(PatternTensors::kBoth), saved[1], saved[2]);
    return result;
  }
};

Tensor gram_autograd(const Tensor& values, TensorList a, TensorList out, const Tensor& starts, const Tensor& places) {
  TORCH_CHECK(a.size() == PatternTensors::kBoth && out.size() == PatternTensors::kBoth,
              "placed_gram: patterns must be lists of ", PatternTensors::kBoth, " tensors, got ", a.size(), " and ",
              out.size());
  return PlacedGram::apply(values, a, out, starts, places);
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("placed_gram", gram_autograd);
  m.impl("placed_gram_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask::ops::placed_gram
