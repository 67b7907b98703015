#include "masks/interface/mask_answers.h"

#include <ATen/core/grad_mode.h>

#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/graph.h"
#include "topomask/power_series.h"

namespace topomask {
namespace {

using testing::close;
using testing::normal;

// What Mask keeps to itself is what matmul computes with.
TEST(MaskAnswers, AreTheProductsOnPlainTensors) {
  const Graph graph = Graph::grid({3, 4}).normalised().to(at::kDouble);
  const at::Tensor alpha = at::tensor({1.0, 0.5}, at::kDouble).requires_grad_();
  const MaskPtr mask = power_series_mask(graph, alpha);
  const at::Tensor x = normal({1, 1, 12, 3}, 1), g = normal({1, 1, 12, 3}, 2);
  const at::Tensor product = mask->matmul(x[0][0]);
  product.backward(g[0][0]);
  const at::NoGradGuard none;
  EXPECT_TRUE(close(MaskAnswers::apply(*mask, x)[0][0], product, 1e-12));
  EXPECT_TRUE(close(MaskAnswers::apply_transposed(*mask, x)[0][0], mask->matmul_transposed(x[0][0]), 1e-12));
  EXPECT_TRUE(close(MaskAnswers::parameter_gradients(*mask, x, g)[0], alpha.grad(), 1e-12));
}

}  // namespace
}  // namespace topomask
