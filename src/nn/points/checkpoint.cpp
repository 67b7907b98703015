#include "nn/points/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <memory>

namespace topomask {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The state of autocast when it was made, to be restored later.
struct AutocastState {
  explicit AutocastState(at::DeviceType of)
      : device(of), enabled(at::autocast::is_autocast_enabled(of)), type(at::autocast::get_autocast_dtype(of)) {}

  at::DeviceType device;
  bool enabled;
  at::ScalarType type;
};

class AutocastAgain {
 public:
  explicit AutocastAgain(const AutocastState& wanted) : before_(wanted.device) {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_dtype(wanted.device, wanted.type);
    at::autocast::set_autocast_enabled(wanted.device, wanted.enabled);
  }
  ~AutocastAgain() {
    at::autocast::set_autocast_dtype(before_.device, before_.type);
    at::autocast::set_autocast_enabled(before_.device, before_.enabled);
    // Copies of weights in bfloat16 must not outlive a step of the optimiser.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  }
  AutocastAgain(const AutocastAgain&) = delete;
  AutocastAgain& operator=(const AutocastAgain&) = delete;

 private:
  AutocastState before_;
};

struct RecordedSegment : torch::CustomClassHolder {
  RecordedSegment(Segment s, size_t n, AutocastState a) : segment(std::move(s)), inputs(n), autocast(a) {}
  Segment segment;
  size_t inputs;
  AutocastState autocast;
};

struct RecomputedFunction : torch::autograd::Function<RecomputedFunction> {
  static variable_list forward(AutogradContext* ctx, const c10::intrusive_ptr<RecordedSegment>& record,
                               at::TensorList tensors) {
    ctx->save_for_backward(tensors.vec());
    ctx->saved_data["segment"] = c10::IValue::make_capsule(record);
    return record->segment({tensors.begin(), tensors.begin() + static_cast<int64_t>(record->inputs)});
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto record = c10::static_intrusive_pointer_cast<RecordedSegment>(ctx->saved_data["segment"].toCapsule());
    const variable_list saved = ctx->get_saved_variables();
    const at::AutoGradMode with_gradient(true);
    variable_list leaves, wanted, outputs, cotangents;
    for (size_t i = 0; i < saved.size(); ++i) {
      // Parameters are leaves already, and the segment reaches them by itself.
      leaves.push_back(i < record->inputs ? saved[i].detach().set_requires_grad(saved[i].requires_grad()) : saved[i]);
      if (leaves.back().requires_grad()) wanted.push_back(leaves.back());
    }
    {
      const AutocastAgain again(record->autocast);
      outputs = record->segment({leaves.begin(), leaves.begin() + static_cast<int64_t>(record->inputs)});
    }
    variable_list from;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (!grads[o].defined() || !outputs[o].requires_grad()) continue;
      from.push_back(outputs[o]);
      cotangents.push_back(grads[o]);
    }
    variable_list found(wanted.size());
    if (!from.empty()) {
      found = torch::autograd::grad(from, wanted, cotangents, /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                    /*allow_unused=*/true);
    }
    variable_list result{at::Tensor()};  // of the segment
    size_t next = 0;
    for (const at::Tensor& leaf : leaves) result.push_back(leaf.requires_grad() ? found[next++] : at::Tensor());
    return result;
  }
};

}  // namespace

std::vector<at::Tensor> recomputed(const Segment& segment, const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters) {
  TORCH_CHECK(!inputs.empty(), "recomputed: inputs must be given, got none");
  variable_list tensors = inputs;
  tensors.insert(tensors.end(), parameters.begin(), parameters.end());
  const auto learns = [](const at::Tensor& x) { return x.requires_grad(); };
  if (!at::GradMode::is_enabled() || std::none_of(tensors.begin(), tensors.end(), learns)) return segment(inputs);
  const AutocastState autocast(inputs[0].device().type());
  return RecomputedFunction::apply(c10::make_intrusive<RecordedSegment>(segment, inputs.size(), autocast),
                                   at::TensorList(tensors));
}

}  // namespace topomask
