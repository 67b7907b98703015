#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <mutex>
#include <unordered_map>

#include "attention/names.h"
#include "ops/call.h"
#include "python_bridge/objects.h"

// A mask as a registered operator, for torch.compile: the mask itself stays outside the graph and is known by a number.
// Families whose attention is made of operators over tensors do not need it.

namespace topomask::python {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Numbers {
  std::mutex mutex;
  std::unordered_map<int64_t, std::weak_ptr<const Mask>> masks;
  std::unordered_map<const Mask*, int64_t> numbers;
  int64_t next = 1;
};

Numbers& numbers() {
  static Numbers all;
  return all;
}

MaskPtr mask_of(int64_t number) {
  Numbers& all = numbers();
  const std::lock_guard lock(all.mutex);
  const auto found = all.masks.find(number);
  MaskPtr mask = found == all.masks.end() ? nullptr : found->second.lock();
  TORCH_CHECK(mask, "apply_mask: the mask of this compiled function no longer exists; compile it again");
  return mask;
}

/// What to compute, apart from the tensors.
struct Call {
  int64_t inputs;  ///< the first tensors are q, k, v or x; the rest are the mask's parameters
  int64_t mask;
  std::string what, route;
  std::optional<double> scale;
  double eps;
  int64_t memory_budget;
};

at::Tensor compute(const MaskPtr& mask, const variable_list& x, const Call& call) {
  if (call.what == "matmul") return mask->matmul(x[0]);
  if (call.what == "matmul_transposed") return mask->matmul_transposed(x[0]);
  const Route route = kRouteNames.parse("attention", "route", call.route);
  if (call.what == "attention") {
    return attention(
        x[0], x[1], x[2], mask,
        {.features = FeatureMap::identity(), .route = route, .eps = call.eps, .memory_budget = call.memory_budget});
  }
  return softmax_attention(x[0], x[1], x[2], mask,
                           {.mask = kSoftmaxMaskNames.parse("softmax_attention", "mode", call.what),
                            .scale = call.scale,
                            .route = route,
                            .eps = call.eps,
                            .memory_budget = call.memory_budget});
}

MaskPtr checked_mask(at::TensorList tensors, const Call& call) {
  const MaskPtr mask = mask_of(call.mask);
  const auto own = mask->parameters();
  for (size_t p = 0; p < own.size(); ++p) {
    TORCH_CHECK(own.size() == tensors.size() - call.inputs && own[p].data_ptr() == tensors[call.inputs + p].data_ptr(),
                "apply_mask: the parameters of mask ", mask->name(),
                " were replaced after it was prepared for torch.compile; mask.prepare() prepares it again");
  }
  return mask;
}

at::Tensor apply_mask(at::TensorList tensors, int64_t inputs, int64_t mask, c10::string_view what,
                      c10::string_view route, std::optional<double> scale, double eps, int64_t memory_budget) {
  const at::NoGradGuard no_grad;
  const Call call{inputs, mask, std::string(what), std::string(route), scale, eps, memory_budget};
  return compute(checked_mask(tensors, call), {tensors.begin(), tensors.begin() + inputs}, call).contiguous();
}

at::Tensor apply_mask_meta(at::TensorList tensors, int64_t inputs, int64_t, c10::string_view, c10::string_view,
                           std::optional<double>, double, int64_t) {
  return at::empty_like(tensors[inputs - 1], at::MemoryFormat::Contiguous);
}

/// Gradients of every tensor, computed by autograd over a second forward pass.
std::vector<at::Tensor> apply_mask_backward(const at::Tensor& grad, at::TensorList tensors, int64_t inputs,
                                            int64_t mask, c10::string_view what, c10::string_view route,
                                            std::optional<double> scale, double eps, int64_t memory_budget) {
  const Call call{inputs, mask, std::string(what), std::string(route), scale, eps, memory_budget};
  const auto state = c10::impl::tls_local_dispatch_key_set();
  const c10::impl::ForceDispatchKeyGuard recording(
      state.included_, state.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  const at::AutoGradMode enabled(true);
  const MaskPtr target = checked_mask(tensors, call);
  variable_list leaves;
  for (int64_t i = 0; i < inputs; ++i) leaves.push_back(tensors[i].detach().requires_grad_());
  const at::Tensor out = compute(target, leaves, call);
  variable_list wanted = leaves;
  for (const at::Tensor& parameter : target->parameters()) {
    if (parameter.requires_grad()) wanted.push_back(parameter);
  }
  const variable_list gradients = torch::autograd::grad({out}, wanted, {grad}, false, false, /*allow_unused=*/true);
  std::vector<at::Tensor> result;
  size_t next = 0;
  const auto take = [&](const at::Tensor& like) {
    const at::Tensor& gradient = gradients[next++];
    result.push_back(gradient.defined() ? gradient.detach().contiguous()
                                        : at::zeros_like(like, at::MemoryFormat::Contiguous));
  };
  for (const at::Tensor& leaf : leaves) take(leaf.detach());
  for (const at::Tensor& parameter : target->parameters()) {
    if (parameter.requires_grad()) {
      take(parameter.detach());
    } else {
      result.push_back(at::zeros_like(parameter, at::MemoryFormat::Contiguous));
    }
  }
  return result;
}

std::vector<at::Tensor> apply_mask_backward_meta(const at::Tensor&, at::TensorList tensors, int64_t, int64_t,
                                                 c10::string_view, c10::string_view, std::optional<double>, double,
                                                 int64_t) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(at::empty_like(tensor, at::MemoryFormat::Contiguous));
  return result;
}

void save(AutogradContext* ctx, const Call& call) {
  auto& data = ctx->saved_data;
  data["inputs"] = call.inputs;
  data["mask"] = call.mask;
  data["what"] = call.what;
  data["route"] = call.route;
  data["scale"] = call.scale;
  data["eps"] = call.eps;
  data["memory_budget"] = call.memory_budget;
}

Call saved(AutogradContext* ctx) {
  auto& data = ctx->saved_data;
  return {data["inputs"].toInt(),
          data["mask"].toInt(),
          data["what"].toStringRef(),
          data["route"].toStringRef(),
          data["scale"].toOptional<double>(),
          data["eps"].toDouble(),
          data["memory_budget"].toInt()};
}

struct ApplyMask : torch::autograd::Function<ApplyMask> {
  static at::Tensor forward(AutogradContext* ctx, at::TensorList tensors, const Call& call) {
    using Signature = at::Tensor(at::TensorList, int64_t, int64_t, c10::string_view, c10::string_view,
                                 std::optional<double>, double, int64_t);
    const at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({tensors.begin(), tensors.end()});
    save(ctx, call);
    return ops::call<"apply_mask", Signature>(tensors, call.inputs, call.mask, call.what, call.route, call.scale,
                                              call.eps, call.memory_budget);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    using Signature = std::vector<at::Tensor>(const at::Tensor&, at::TensorList, int64_t, int64_t, c10::string_view,
                                              c10::string_view, std::optional<double>, double, int64_t);
    const auto tensors = ctx->get_saved_variables();
    const Call call = saved(ctx);
    variable_list result = ops::call<"apply_mask_backward", Signature>(
        grads[0], tensors, call.inputs, call.mask, call.what, call.route, call.scale, call.eps, call.memory_budget);
    result.emplace_back();  // of the call
    return result;
  }
};

at::Tensor apply_mask_autograd(at::TensorList tensors, int64_t inputs, int64_t mask, c10::string_view what,
                               c10::string_view route, std::optional<double> scale, double eps, int64_t memory_budget) {
  return ApplyMask::apply(tensors,
                          Call{inputs, mask, std::string(what), std::string(route), scale, eps, memory_budget});
}

}  // namespace

int64_t mask_number(const MaskPtr& mask) {
  Numbers& all = numbers();
  const std::lock_guard lock(all.mutex);
  const auto known = all.numbers.find(mask.get());
  if (known != all.numbers.end() && all.masks[known->second].lock() == mask) return known->second;
  for (auto it = all.masks.begin(); it != all.masks.end();) it = it->second.expired() ? all.masks.erase(it) : ++it;
  for (auto it = all.numbers.begin(); it != all.numbers.end();) {
    it = all.masks.contains(it->second) ? ++it : all.numbers.erase(it);
  }
  const int64_t number = all.next++;
  all.masks[number] = mask;
  all.numbers[mask.get()] = number;
  return number;
}

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "apply_mask(Tensor[] tensors, int inputs, int mask, str what, str route, float? scale, float eps, "
      "int memory_budget) -> Tensor");
  m.def(
      "apply_mask_backward(Tensor grad, Tensor[] tensors, int inputs, int mask, str what, str route, float? scale, "
      "float eps, int memory_budget) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("apply_mask", apply_mask);
  m.impl("apply_mask_backward", apply_mask_backward);
}

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("apply_mask", apply_mask);
  m.impl("apply_mask_backward", apply_mask_backward);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("apply_mask", apply_mask_meta);
  m.impl("apply_mask_backward", apply_mask_backward_meta);
}

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("apply_mask", apply_mask_autograd);
}

}  // namespace topomask::python
