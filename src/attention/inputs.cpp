#include "attention/inputs.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

#include <algorithm>

#include "core/checks.h"

namespace topomask {
namespace {

at::Tensor autocast(const at::Tensor& x) {
  if (!x.defined() || !(x.is_cpu() || x.is_cuda())) return x;  // other devices are refused below
  if (!at::autocast::is_autocast_enabled(x.device().type())) return x;
  const at::ScalarType type = x.scalar_type();
  const bool eligible = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  return eligible ? x.to(at::autocast::get_autocast_dtype(x.device().type())) : x;
}

LeadingDims checked_dims(const char* op, const at::Tensor& q, const MaskPtr& mask) {
  TORCH_CHECK(mask != nullptr, op, ": mask must be given, got none; none_mask(N) is unmasked attention");
  return LeadingDims(op, "q", q, mask->heads(), mask->size());
}

/// The kernels hold eps in the type of their sums.
void check_eps(const char* op, double eps, at::ScalarType type) {
  TORCH_CHECK(eps > 0, op, ": eps must be > 0, got ", eps);
  check_finite(op, "eps", eps);
  const auto narrow = static_cast<float>(eps);
  TORCH_CHECK(type == at::kDouble || (narrow > 0 && std::isfinite(narrow)), op,
              ": eps must be in the range of float32 for inputs that are not float64, got ", eps);
}

bool wants_gradients(at::TensorList tensors) {
  return at::GradMode::is_enabled() &&
         std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& x) { return x.requires_grad(); });
}

}  // namespace

Inputs::Inputs(const char* op, const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
               const MaskPtr& mask, double eps, int64_t memory_budget)
    : q(autocast(q_in)), k(autocast(k_in)), v(autocast(v_in)), dims(checked_dims(op, q, mask)) {
  const at::ScalarType type = q.scalar_type();
  TORCH_CHECK(q.is_cpu() || q.is_cuda(), op, ": q must be on cpu or cuda, got ", describe(q));
  TORCH_CHECK(is_node_dtype(type, q.device().type()), op, ": q must be ", node_dtypes(q.device().type()), ", got ",
              describe(q));
  TORCH_CHECK(k.defined() && k.sizes() == q.sizes() && k.scalar_type() == type && k.device() == q.device(), op,
              ": k must be like q, ", describe(q), ", got ", describe(k));
  TORCH_CHECK(v.defined() && v.dim() == q.dim() && v.scalar_type() == type && v.device() == q.device() &&
                  v.sizes().slice(0, v.dim() - 1) == q.sizes().slice(0, q.dim() - 1),
              op, ": v must be like q, ", describe(q), ", but for its last dimension, got ", describe(v));
  const auto mask_type = mask->dtype();
  TORCH_CHECK(!mask_type || *mask_type == accumulation_type(type), op, ": mask must be ", accumulation_type(type),
              " where q is ", type, ", got ", *mask_type, "; mask->to(dtype) converts it");
  const auto device = mask->device();
  TORCH_CHECK(!device || *device == q.device(), op, ": mask must be on ", q.device(), " as q is, got ", *device,
              "; mask->to(device) moves it");
  check_eps(op, eps, accumulation_type(type));
  TORCH_CHECK(memory_budget >= 0, op, ": memory_budget must be >= 0, got ", memory_budget);
  training = wants_gradients({q, k, v}) || wants_gradients(mask->parameters());
}

Workload Inputs::workload(int64_t features) const {
  return {.slices = dims.batch() * dims.heads(),
          .heads = dims.heads(),
          .nodes = q.size(-2),
          .features = features,
          .value_dim = v.size(-1),
          .dtype = q.scalar_type(),
          .device = q.device().type(),
          .threads = at::get_num_threads(),
          .training = training};
}

RouteLayout::RouteLayout(const Inputs& inputs, Route route) : dims_(inputs.dims) {
  const at::Tensor& v = inputs.v;
  const bool any_strides = v.is_cuda() && (route == Route::sparse || route == Route::fused);
  if (!any_strides || (v.dim() != 3 && v.dim() != 4)) return;
  as_it_is_ = v.dim();
  nodes_first_ = v.stride(-3) < v.stride(-2);
}

at::Tensor RouteLayout::fold(const at::Tensor& x) const {
  if (as_it_is_ == 0) return dims_.fold(x);
  return as_it_is_ == 3 ? x.unsqueeze(0) : x;
}

at::Tensor RouteLayout::unfold(const at::Tensor& x) const {
  if (as_it_is_ == 0) return dims_.unfold(x);
  return as_it_is_ == 3 ? x.squeeze(0) : x;
}

}  // namespace topomask
