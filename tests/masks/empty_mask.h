#pragma once

#include "support/compare.h"
#include "topomask/attention.h"

namespace topomask::testing {

/// A mask over no node: every product and form is there, and gradients are zero.
inline void expect_empty(const MaskPtr& mask) {
  const at::Tensor x = at::zeros({2, 0, 3}, at::kDouble).requires_grad_();
  std::vector<at::Tensor> inputs = mask->parameters();
  inputs.push_back(x);
  for (const at::Tensor& y : {mask->matmul(x), mask->matmul_transposed(x)}) {
    EXPECT_EQ(y.sizes(), x.sizes());
    for (const at::Tensor& gradient : gradients(y, at::zeros_like(y), inputs)) {
      EXPECT_TRUE(gradient.eq(0).all().item<bool>()) << mask->name();
    }
  }
  EXPECT_EQ(mask->dense().sizes(), (std::vector<int64_t>{0, 0})) << mask->name();
  EXPECT_EQ(attention(x, x, x, mask).sizes(), x.sizes());
  EXPECT_EQ(softmax_attention(x, x, x, mask).sizes(), x.sizes());
}

}  // namespace topomask::testing
