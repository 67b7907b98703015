#include <ATen/ATen.h>

#include "ops/normalised_weights/op.h"
#include "support/compare.h"
#include "support/devices.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;

/// The definition, by torch's operations.
at::Tensor by_definition(const at::Tensor& scores, const at::Tensor& mask, double eps) {
  const at::Tensor weights = scores * mask, sum = weights.sum(-1, true);
  const at::Tensor clamped = at::full_like(sum, eps).masked_fill(sum < 0, -eps);
  return weights / at::where(sum.abs() < eps, clamped, sum);
}

TEST(NormalisedWeights, AreTheDefinitionWithGradients) {
  for (const at::Device device : testing::devices()) {
    at::manual_seed(3);
    // Rows of one, two and four packets a lane, odd ones and long ones.
    for (const int64_t cols : {2, 7, 64, 120, 250, 1000}) {
      for (const int64_t heads : {1, 3}) {
        const auto options = at::device(device).dtype(at::kDouble);
        const at::Tensor scores = at::rand({5, 3, 9, cols}, options).requires_grad_();
        const at::Tensor mask = at::rand({heads, 9, cols}, options);
        mask.select(1, 4).zero_();  // a row without weights
        mask.requires_grad_();
        const at::Tensor cotangent = at::randn({5, 3, 9, cols}, options);
        const at::Tensor ours = ops::normalised_weights::weights(scores, mask, 1e-6),
                         expected = by_definition(scores, mask, 1e-6);
        EXPECT_TRUE(close(ours, expected, 1e-12));
        const auto grads = gradients(ours, cotangent, {scores, mask});
        const auto wanted = gradients(expected, cotangent, {scores, mask});
        EXPECT_TRUE(close(grads[0], wanted[0], 1e-10)) << device << ' ' << cols;
        EXPECT_TRUE(close(grads[1], wanted[1], 1e-10)) << device << ' ' << cols;
      }
    }
  }
}

TEST(NormalisedWeights, SayWhatIsWrong) {
  const at::Tensor scores = at::rand({2, 3, 4, 5});
  EXPECT_ERROR(ops::normalised_weights::weights(scores[0], at::rand({1, 4, 5}), 1e-6),
               "scores must be floating [B, H, N, P], got");
  EXPECT_ERROR(ops::normalised_weights::weights(scores, at::rand({2, 4, 5}), 1e-6),
               "mask must be Float [1 or H, N, P]");
  EXPECT_ERROR(ops::normalised_weights::weights(scores, at::rand({1, 4, 5}, at::kDouble), 1e-6), "mask must be Float");
  EXPECT_ERROR(ops::normalised_weights::weights(scores, at::rand({1, 4, 5}), 0), "eps must be > 0, got 0");
}

}  // namespace
}  // namespace topomask
