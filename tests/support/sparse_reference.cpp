#include "support/sparse_reference.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace topomask::testing {

PatternPtr random_pattern(int64_t rows, int64_t cols, double density, uint64_t seed) {
  at::Tensor keep = at::rand({rows, cols}, at::make_generator<at::CPUGeneratorImpl>(seed)) < density;
  if (cols > 2) keep.select(1, 1).fill_(false);
  if (rows > 0) keep.select(0, rows - 1).fill_(true);
  if (rows > 2) keep.select(0, 0).fill_(false);
  const at::Tensor offsets = at::cat({at::zeros({1}, at::kLong), keep.sum(1).cumsum(0)});
  return std::make_shared<SparsePattern>(rows, cols, offsets, at::nonzero(keep).select(1, 1).to(at::kInt).contiguous());
}

at::Tensor random_tensor(at::IntArrayRef shape, uint64_t seed, bool positive) {
  const at::Tensor x = at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
  return positive ? x.abs() + 0.1 : x;
}

std::vector<at::Tensor> leaves(const std::vector<at::Tensor>& inputs, at::ScalarType dtype) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& input : inputs) result.push_back(input.detach().to(dtype).clone().requires_grad_());
  return result;
}

std::vector<at::Tensor> with_gradients(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> cotangents;
  for (const at::Tensor& output : outputs) {
    cotangents.push_back(random_tensor(output.sizes(), 99 + cotangents.size()).to(output.scalar_type()));
  }
  std::vector<at::Tensor> result = outputs;
  for (at::Tensor& output : result) output = output.detach();
  for (const at::Tensor& grad : torch::autograd::grad(outputs, inputs, cotangents)) result.push_back(grad);
  return result;
}

void expect_close(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t n = 0; n < actual.size(); ++n) {
    ASSERT_EQ(actual[n].sizes(), expected[n].sizes()) << "tensor " << n;
    if (actual[n].numel() == 0) continue;
    const at::Tensor want = expected[n].to(at::kDouble);
    const double error = (actual[n].to(at::kDouble) - want).abs().max().item<double>();
    EXPECT_LE(error, tolerance * std::max(1.0, want.abs().max().item<double>())) << "tensor " << n;
  }
}

void expect_error(const std::function<void()>& call, const std::string& text) {
  try {
    call();
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find(text), std::string::npos)
        << "expected: " << text << "\ngot: " << error.what_without_backtrace();
    return;
  }
  ADD_FAILURE() << "no error; expected: " << text;
}

at::Tensor dense_matrix(const PatternPtr& pattern, const at::Tensor& values) {
  at::Tensor dense = at::zeros({values.size(0), pattern->rows() * pattern->cols()}, values.options());
  std::vector<int64_t> places;
  const auto offsets = pattern->offsets().accessor<int64_t, 1>();
  const auto columns = pattern->columns().accessor<int32_t, 1>();
  for (int64_t i = 0; i < pattern->rows(); ++i) {
    for (int64_t e = offsets[i]; e < offsets[i + 1]; ++e) places.push_back(i * pattern->cols() + columns[e]);
  }
  return dense.index_copy(1, at::tensor(places, at::kLong), values)
      .reshape({values.size(0), pattern->rows(), pattern->cols()});
}

at::Tensor clamp_reference(const at::Tensor& denominator, double eps) {
  const at::Tensor bound =
      at::where(denominator < 0, at::full_like(denominator, -eps), at::full_like(denominator, eps));
  return at::where(denominator.abs() < eps, bound, denominator);
}

at::Tensor attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                               double eps) {
  const at::Tensor weights = mask * at::matmul(q, k.transpose(-1, -2));
  return at::matmul(weights, v) / clamp_reference(weights.sum(-1), eps).unsqueeze(-1);
}

at::Tensor softmax_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                             double scale, double eps) {
  const at::Tensor scores = scale * at::matmul(q, k.transpose(-1, -2));
  const at::Tensor present = mask.detach() != 0;
  at::Tensor max = at::where(present, scores.detach(), -std::numeric_limits<double>::infinity());
  max = max.size(-1) == 0 ? at::zeros({max.size(0), max.size(1), max.size(2), 1}, max.options()) : max.amax(-1, true);
  max = at::where(at::isinf(max), at::zeros_like(max), max);
  const at::Tensor weights = mask * at::exp(scores - max);
  return at::matmul(weights, v) / clamp_reference(weights.sum(-1), eps).unsqueeze(-1);
}

}  // namespace topomask::testing
