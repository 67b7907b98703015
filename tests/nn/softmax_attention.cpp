#include <ATen/ATen.h>

#include "support/compare.h"
#include "support/mask_contract.h"
#include "support/peak_memory.h"
#include "topomask/nn/attention.h"
#include "topomask/power_series.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;
using testing::normal;

TEST(SoftmaxAttention, AddsALargeMaskWithoutItsMatrix) {
  constexpr int64_t kNodes = 4160;  // N×N in float32: 66 MiB
  const at::Tensor alpha = at::tensor({0.7F, 0.4F, -0.2F}).requires_grad_();
  const MaskPtr mask = power_series_mask(Graph::cycle(kNodes).normalised(0.9), alpha);
  SoftmaxAttention attention(std::make_shared<GivenMask>(mask));
  const auto rows = [](uint64_t seed) { return normal({1, 1, kNodes, 8}, seed).to(at::kFloat).requires_grad_(); };
  const at::Tensor q = rows(1), k = rows(2), v = rows(3), cotangent = rows(4).detach();
  const auto all = [&](const at::Tensor& out) {
    auto result = gradients(out, cotangent, {q, k, v, alpha});
    result.push_back(out.detach());
    return result;
  };
  std::vector<at::Tensor> actual;
  EXPECT_LT(testing::peak_growth([&] { actual = all(attention.forward(q, k, v)); }), 60 << 20);
  const auto expected = all(at::scaled_dot_product_attention(q, k, v, mask->dense()));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(close(actual[i], expected[i], 1e-4)) << i;
}

}  // namespace
}  // namespace topomask
