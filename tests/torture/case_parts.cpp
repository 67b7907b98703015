#include "torture/case_parts.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace topomask::torture {

std::vector<size_t> learnt(const DrawnMask& drawn) {
  std::vector<size_t> result;
  for (size_t i = 0; i < drawn.leaves.size(); ++i) {
    if (drawn.leaves[i].requires_grad()) result.push_back(i);
  }
  return result;
}

void make_reference(Setting& setting) {
  setting.doubles.clear();
  for (const at::Tensor& leaf : setting.drawn.leaves) {
    setting.doubles.push_back(leaf.detach().to(at::kDouble).clone().requires_grad_(leaf.requires_grad()));
  }
  setting.value = setting.drawn.reference(setting.doubles);
  // One head is none.
  const int64_t n = setting.mask->size();
  for (at::Tensor* part : {&setting.value.matrix, &setting.value.magnitude}) {
    if (setting.mask->heads() == 1) *part = part->reshape({n, n});
  }
}

std::vector<at::Tensor> gradients_of(const at::Tensor& output, const at::Tensor& cotangent,
                                     const std::vector<at::Tensor>& inputs, bool keep) {
  std::vector<at::Tensor> result(inputs.size());
  if (!inputs.empty() && output.requires_grad()) {
    result = torch::autograd::grad({output}, inputs, {cotangent}, /*retain_graph=*/keep, /*create_graph=*/false,
                                   /*allow_unused=*/true);
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (!result[i].defined()) result[i] = at::zeros_like(inputs[i]);
  }
  return result;
}

at::Tensor signs_like(const Draw& draw, const std::string& name, const at::Tensor& x) {
  return at::where(draw.uniform(name, x.sizes(), -1, 1) < 0, -1.0, 1.0);
}

void judge_parameters(const Setting& setting, Judge& judge, const std::vector<at::Tensor>& got,
                      const std::vector<at::Tensor>& want, const at::Tensor& scale) {
  const at::Tensor& matrix = setting.value.matrix;
  const std::vector<size_t> which = learnt(setting.drawn);
  if (which.empty()) return;
  std::vector<at::Tensor> leaves, sizes;
  for (const size_t i : which) leaves.push_back(setting.doubles[i]), sizes.push_back(at::zeros_like(leaves.back()));
  // The sum over batch and, where the matrix has none, heads.
  at::Tensor entries = scale;
  while (entries.dim() > matrix.dim()) entries = entries.sum(0);
  // Random signs give the root of the sum of the squares of what a gradient consists of: the size of its rounding
  // error. The largest of a few draws.
  if (matrix.requires_grad()) {
    for (int probe = 0; probe < 4; ++probe) {
      const at::Tensor signs = signs_like(setting.draw, "probe" + std::to_string(probe), entries);
      const auto probed = gradients_of(matrix, entries * signs, leaves, /*keep=*/true);
      for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = at::maximum(sizes[i], probed[i].abs());
    }
  }
  const double whole = (entries * setting.value.magnitude).norm().item<double>();
  for (size_t i = 0; i < which.size(); ++i) {
    at::Tensor size = sizes[i];
    if (size.numel() == 0) continue;
    if (setting.drawn.normwise) size = size.max().expand_as(size);
    size = size + setting.drawn.slope * whole / std::max(0.1, leaves[i].abs().max().item<double>());
    judge.compare("gradient of " + setting.drawn.names[which[i]], got[i], want[i], size, setting.tolerance.total(),
                  setting.drawn.through_float);
  }
}

std::vector<int64_t> draw_leading(Draw& draw, int64_t heads) {
  const int64_t kind = draw.below("leading", 7), batch = draw.pick<int64_t>("batch", {1, 2, 3});
  if (heads > 1) {
    if (kind < 3) return {heads};
    if (kind < 6) return {batch, heads};
    return {batch, 2, heads};
  }
  switch (kind) {
    case 0:
    case 1:
      return {};
    case 2:
      return {batch};
    case 3:
      return {batch, 2};
    case 4:
      return {1, batch};
    case 5:
      return {batch, 1, 2};
    default:
      return draw.chance("no_batch", 15) ? std::vector<int64_t>{0} : std::vector<int64_t>{batch, 3};
  }
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

}  // namespace topomask::torture
