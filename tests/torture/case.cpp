#include "torture/case.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <optional>

#include "support/poisoned_memory.h"
#include "torture/case_parts.h"
#include "torture/refusal.h"

namespace topomask::torture {
namespace {

at::ScalarType draw_dtype(Draw& draw, at::Device device) {
  if (device.is_cuda() && draw.chance("half", 15)) return at::kHalf;
  return draw.pick("dtype", {at::kDouble, at::kDouble, at::kDouble, at::kFloat, at::kFloat, at::kBFloat16});
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

void run(Draw& draw, at::Device device, Outcome& outcome) {
  enum class Operation { kernel, products, forms, multiplicative, additive };
  using O = Operation;
  const Operation operation =
      draw.pick("operation", {O::kernel, O::kernel, O::kernel, O::kernel, O::products, O::products, O::forms,
                              O::multiplicative, O::multiplicative, O::additive});
  at::ScalarType dtype = draw_dtype(draw, device);
  const bool reduced = dtype == at::kBFloat16 || dtype == at::kHalf;
  if (reduced && (operation == O::products || operation == O::forms)) dtype = at::kFloat;
  at::set_num_threads(draw.pick("threads", {1, 1, 1, 2, 3}));
  std::optional<testing::PoisonedMemory> poison;
  if (draw.chance("poison", 60)) poison.emplace(device);
  DrawnMask drawn = draw_mask(draw, dtype == at::kDouble ? at::kDouble : at::kFloat);
  const MaskPtr mask = device.is_cpu() ? drawn.mask : drawn.mask->to(device);
  Setting setting{draw, device, dtype, drawn, mask, tolerance_of(dtype, drawn.accuracy)};
  outcome.family = drawn.family;
  std::string what = std::string(", ") + c10::toString(dtype) + " on " + device.str() + ", mask " + drawn.what +
                     ", N " + std::to_string(mask->size()) + ", H " + std::to_string(mask->heads());
  outcome.what = what;
  Judge judge;
  try {
    switch (operation) {
      case O::kernel:
        outcome.operation = run_attention(setting, judge, what);
        break;
      case O::multiplicative:
      case O::additive:
        outcome.operation = run_softmax(setting, judge, what, operation == O::additive);
        break;
      case O::products:
        outcome.operation = "products";
        what = "products" + what;
        make_reference(setting);
        run_products(setting, judge, what);
        break;
      case O::forms:
        outcome.operation = "forms";
        what = "forms" + what;
        make_reference(setting);
        run_forms(setting, judge, what);
        break;
    }
  } catch (...) {
    outcome.what = what;
    throw;
  }
  outcome.what = what;
  outcome.failure = judge.failure();
  outcome.beyond = judge.left_out();
  outcome.worst = judge.worst();
  outcome.worst_name = judge.worst_name();
}

}  // namespace

Outcome run_case(Draw& draw, at::Device device) {
  Outcome outcome;
  outcome.family = "(not made)";
  try {
    run(draw, device, outcome);
  } catch (const RefusedByDesign& refusal) {
    outcome.refused = first_line(refusal.what());
    if (outcome.operation.empty()) outcome.operation = "(refused)";
  } catch (const c10::Error& error) {
    outcome.failure = "threw: " + first_line(error.what_without_backtrace());
  } catch (const std::exception& error) {
    outcome.failure = "threw: " + first_line(error.what());
  }
  if (outcome.what.empty()) {
    for (const Draw::Choice& choice : draw.taken())
      outcome.what += choice.name + "=" + std::to_string(choice.value) + " ";
  }
  return outcome;
}

}  // namespace topomask::torture
