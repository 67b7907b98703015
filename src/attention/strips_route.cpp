#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "attention/mask_strips.h"
#include "attention/route_slices.h"
#include "attention/routes.h"
#include "attention/strips.h"
#include "core/checks.h"
#include "core/plain_ops.h"

namespace topomask {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct StripPlan {
  MaskStrips strips;
  RowFormula formula;
  int64_t nodes;

  /// f(b, count) for parts of the batch of such q that a strip takes at once.
  template <class F>
  void for_batch(const at::Tensor& q, const Strip& strip, const F& f) const {
    const int64_t each = std::max<int64_t>(1, q.size(1) * strip.count * nodes);
    const int64_t at_once = std::max<int64_t>(1, strip_values(q.is_cuda()) / each);
    for (int64_t b = 0; b < q.size(0); b += at_once) f(b, std::min(at_once, q.size(0) - b));
  }
};

/// Inside an autograd context, which keeps only IValues.
struct StripPlanHolder : torch::CustomClassHolder {
  explicit StripPlanHolder(std::shared_ptr<const StripPlan> p) : plan(std::move(p)) {}
  std::shared_ptr<const StripPlan> plan;
};

struct StripsFunction : torch::autograd::Function<StripsFunction> {
  static at::Tensor forward(AutogradContext* ctx, const std::shared_ptr<const StripPlan>& plan, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v, at::TensorList sources) {
    variable_list saved{q, k, v};
    saved.insert(saved.end(), sources.begin(), sources.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["plan"] = c10::IValue::make_capsule(c10::make_intrusive<StripPlanHolder>(plan));
    const at::Tensor out = at::empty(v.sizes(), v.options());
    for (const Strip& strip : plan->strips.strips()) {
      const at::Tensor mask = plan->strips.rows(sources.vec(), strip);
      plan->for_batch(q, strip, [&](int64_t b, int64_t count) {
        const auto part = [&](const at::Tensor& x) { return x.narrow(0, b, count); };
        const auto rows = [&](const at::Tensor& x) { return part(x).narrow(2, strip.first, strip.count); };
        rows(out).copy_(attend_rows(rows(q), part(k), part(v), mask, plan->formula));
      });
    }
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    check_differentiated_once("attention");
    const NoAutocast no_autocast;
    const at::NoGradGuard no_grad;
    const auto saved = ctx->get_saved_variables();
    const auto plan = static_cast<const StripPlanHolder&>(*ctx->saved_data["plan"].toCapsule()).plan;
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const variable_list sources(saved.begin() + 3, saved.end());
    bool want_mask = false;
    for (size_t i = 3; i < saved.size(); ++i) want_mask = want_mask || ctx->needs_input_grad(i);

    const at::ScalarType wide = accumulation_type(q.scalar_type());
    const at::Tensor dq = at::empty(q.sizes(), q.options()), dk = at::zeros(k.sizes(), k.options().dtype(wide)),
                     dv = at::zeros(v.sizes(), v.options().dtype(wide));
    variable_list to_sources(sources.size());
    for (const Strip& strip : plan->strips.strips()) {
      const at::Tensor mask = plan->strips.rows(sources, strip).set_requires_grad(want_mask);
      at::Tensor to_mask;
      plan->for_batch(q, strip, [&](int64_t b, int64_t count) {
        const auto part = [&](const at::Tensor& x) { return x.narrow(0, b, count); };
        const auto rows = [&](const at::Tensor& x) { return part(x).narrow(2, strip.first, strip.count); };
        const auto leaf = [](const at::Tensor& x) { return x.detach().requires_grad_(); };
        const at::AutoGradMode record(true);
        variable_list inputs{leaf(rows(q)), leaf(part(k)), leaf(part(v))};
        const at::Tensor out = attend_rows(inputs[0], inputs[1], inputs[2], mask, plan->formula);
        if (want_mask) inputs.push_back(mask);
        const variable_list made = torch::autograd::grad({out}, inputs, {rows(grads[0])});
        const at::NoGradGuard plain;
        rows(dq).copy_(made[0]);
        part(dk).add_(made[1]);
        part(dv).add_(made[2]);
        if (want_mask) to_mask = to_mask.defined() ? to_mask.add_(made[3]) : made[3];
      });
      if (want_mask) plan->strips.add_gradients(sources, strip, to_mask, to_sources);
    }
    variable_list result{at::Tensor(), dq, dk.to(k.scalar_type()), dv.to(v.scalar_type())};
    result.insert(result.end(), to_sources.begin(), to_sources.end());
    return result;
  }
};

}  // namespace

at::Tensor attend_in_strips(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const MaskPtr& mask,
                            const RowFormula& formula, double room) {
  const at::ScalarType wide = accumulation_type(q.scalar_type());
  // The formula would convert all keys and values for every strip.
  const auto ready = [&](const at::Tensor& x) { return (x.is_cpu() ? x.to(wide) : x).contiguous(); };
  const auto plan = std::make_shared<const StripPlan>(
      StripPlan{MaskStrips(mask, q.options().dtype(wide), room), formula, mask->size()});
  return StripsFunction::apply(plan, ready(q), ready(k), ready(v), at::TensorList(plan->strips.sources()))
      .to(v.scalar_type());
}

at::Tensor strips_route(const Problem& problem) {
  return attend_in_strips(problem.q, problem.k, problem.v, problem.mask, {.eps = problem.eps}, problem.room);
}

}  // namespace topomask
