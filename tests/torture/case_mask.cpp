#include <ATen/ATen.h>

#include "torture/case_parts.h"

namespace topomask::torture {
namespace {

at::Tensor repeated_for(const at::Tensor& matrix, const std::vector<int64_t>& leading) {
  std::vector<int64_t> shape = leading;
  shape.insert(shape.end(), {matrix.size(-2), matrix.size(-1)});
  return matrix.expand(shape);
}

std::vector<at::Tensor> leaves_of(const Setting& setting, bool doubles) {
  std::vector<at::Tensor> result;
  for (const size_t i : learnt(setting.drawn)) {
    result.push_back(doubles ? setting.doubles[i] : setting.drawn.leaves[i]);
  }
  return result;
}

void judge_form(Setting& setting, Judge& judge, const std::string& name, const at::Tensor& form) {
  // One head may have a dimension or not.
  at::Tensor here = form.to(at::kCPU, at::kDouble);
  if (setting.mask->heads() == 1 && here.dim() == 3 && here.size(0) == 1) here = here.squeeze(0);
  judge.compare(name, here.to(setting.dtype), setting.value.matrix, setting.value.magnitude, setting.tolerance.total());
  const at::Tensor cotangent = setting.draw.normal(name + ".cotangent", setting.value.matrix.sizes());
  const auto got = gradients_of(here, cotangent, leaves_of(setting, false), /*keep=*/true);
  const auto want = gradients_of(setting.value.matrix, cotangent, leaves_of(setting, true), /*keep=*/true);
  Judge parameters;
  judge_parameters(setting, parameters, got, want, cotangent.abs());
  judge.require(!parameters.failed(), name + ", " + parameters.failure());
}

}  // namespace

void run_products(Setting& setting, Judge& judge, std::string& what) {
  const std::vector<int64_t> leading = draw_leading(setting.draw, setting.mask->heads());
  const int64_t width = setting.draw.pick<int64_t>("width", {1, 3, 16, 17, 64, 130});
  const bool transposed = setting.draw.chance("transposed", 50);
  const DrawnInput input = draw_input(setting.draw, "x", leading, setting.mask->size(), width, setting.dtype, 1.0);
  what += ", leading " + shape_text(leading) + ", C " + std::to_string(width) + ", x " + input.layout;
  const at::Tensor x = input.there(setting.device);
  const at::Tensor y = transposed ? setting.mask->matmul_transposed(x) : setting.mask->matmul(x);

  const at::Tensor leaf = input.leaf.detach().to(at::kDouble).requires_grad_(input.leaf.requires_grad());
  const at::Tensor plain = input.view(leaf);
  const at::Tensor m = transposed ? setting.value.matrix.mT() : setting.value.matrix;
  const at::Tensor size = transposed ? setting.value.magnitude.mT() : setting.value.magnitude;
  const at::Tensor want = at::matmul(m, plain);
  const double tol = setting.tolerance.total();
  const std::string name = transposed ? "transposed product" : "product";
  judge.compare(name, y, want, at::matmul(size, plain.detach().abs()), tol);

  const at::Tensor cotangent = setting.draw.normal("cotangent", want.sizes()).to(setting.dtype);
  std::vector<at::Tensor> got_inputs = leaves_of(setting, false), want_inputs = leaves_of(setting, true);
  const size_t parameters = got_inputs.size();
  if (leaf.requires_grad()) got_inputs.push_back(input.leaf), want_inputs.push_back(leaf);
  const at::Tensor wide = cotangent.to(at::kDouble);
  auto got = gradients_of(y, cotangent.to(setting.device), got_inputs);
  auto expected = gradients_of(want, wide, want_inputs, /*keep=*/true);
  if (leaf.requires_grad()) {
    const at::Tensor sizes =
        gradients_of(plain, at::matmul(repeated_for(size, leading).mT(), wide.abs()), {leaf}, true)[0];
    judge.compare("gradient of x", got.back(), expected.back(), sizes, tol);
  }
  got.resize(parameters);
  expected.resize(parameters);
  const at::Tensor products = at::matmul(wide.abs(), plain.detach().abs().mT());
  judge_parameters(setting, judge, got, expected, transposed ? products.mT() : products);
}

void run_forms(Setting& setting, Judge& judge, std::string&) {
  const Mask& mask = *setting.mask;
  judge_form(setting, judge, "dense()", mask.dense());
  const MaskCounts counts = mask.counts();
  const auto matrix = mask.sparse();
  judge.require(matrix.has_value() == counts.sparse_entries.has_value(),
                "counts(): sparse_entries does not agree with sparse()");
  if (matrix) judge_form(setting, judge, "sparse()", matrix->dense());
  const auto factors = mask.factors();
  judge.require(factors.has_value() == counts.factor_entries.has_value(),
                "counts(): factor_entries does not agree with factors()");
  if (!factors) return;
  judge.require(factors->left.sparse.has_value() != counts.dense_factors,
                "counts(): dense_factors does not agree with factors()");
  const auto dense = [&](const Factor& f) {
    return (f.sparse ? f.sparse->dense() : f.dense).to(at::kCPU, at::kDouble);
  };
  judge_form(setting, judge, "factors()", at::matmul(dense(factors->left), dense(factors->right).mT()));
}

}  // namespace topomask::torture
