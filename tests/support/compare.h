#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

namespace topomask::testing {

/// |actual − expected| ≤ tolerance·max(max|expected|, floor), shapes equal, nothing NaN. A gradient that is zero but
/// for rounding needs a floor.
inline ::testing::AssertionResult close(const at::Tensor& actual, const at::Tensor& expected, double tolerance,
                                        double floor = 1e-30) {
  if (!actual.defined() || !expected.defined()) {
    return ::testing::AssertionFailure() << "undefined: " << (actual.defined() ? "expected" : "actual");
  }
  if (actual.sizes() != expected.sizes()) {
    return ::testing::AssertionFailure() << "shape " << actual.sizes() << ", expected " << expected.sizes();
  }
  if (actual.numel() == 0) return ::testing::AssertionSuccess();
  const at::Tensor a = actual.detach().to(at::kDouble), e = expected.detach().to(at::kDouble);
  const double error = (a - e).abs().max().item<double>(), scale = std::max(e.abs().max().item<double>(), floor);
  if (error <= tolerance * scale) return ::testing::AssertionSuccess();  // NaN is not
  return ::testing::AssertionFailure() << "relative error " << error / scale << ", tolerance " << tolerance;
}

/// Gradients of ⟨output, cotangent⟩; an input the output does not depend on gets zeros.
inline std::vector<at::Tensor> gradients(const at::Tensor& output, const at::Tensor& cotangent,
                                         const std::vector<at::Tensor>& inputs) {
  auto grads = torch::autograd::grad({output}, inputs, {cotangent}, /*retain_graph=*/std::nullopt,
                                     /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) grads[i] = at::zeros_like(inputs[i]);
  }
  return grads;
}

/// The statement throws c10::Error whose text contains `text`.
#define EXPECT_ERROR(statement, text)                                                   \
  try {                                                                                 \
    statement;                                                                          \
    ADD_FAILURE() << "no error; expected: " << (text);                                  \
  } catch (const c10::Error& error) {                                                   \
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what(); \
  }

}  // namespace topomask::testing
