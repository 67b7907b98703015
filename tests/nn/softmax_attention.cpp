#include <ATen/ATen.h>

#include "support/compare.h"
#include "support/mask_contract.h"
#include "support/peak_memory.h"
#include "topomask/nn/attention.h"
#include "topomask/power_series.h"
#include "topomask/toeplitz.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;
using testing::normal;

/// Output and gradients are those of torch's attention with the matrix, and take at most `limit` bytes. The first calls
/// of a process also load code and make buffers of threads, so that a smaller mask comes first.
void expect_added(const MaskPtr& mask, const at::Tensor& parameter, int64_t limit) {
  SoftmaxAttention attention(std::make_shared<GivenMask>(mask));
  const auto rows = [&](uint64_t seed) {
    return normal({1, 1, mask->size(), 8}, seed).to(at::kFloat).requires_grad_();
  };
  const at::Tensor q = rows(1), k = rows(2), v = rows(3), cotangent = rows(4).detach();
  const auto all = [&](const at::Tensor& out) {
    auto result = gradients(out, cotangent, {q, k, v, parameter});
    result.push_back(out.detach());
    return result;
  };
  std::vector<at::Tensor> actual;
  EXPECT_LT(testing::peak_growth([&] { actual = all(attention.forward(q, k, v)); }), limit) << mask->name();
  const auto expected = all(at::scaled_dot_product_attention(q, k, v, mask->dense()));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(close(actual[i], expected[i], 1e-4)) << mask->name() << ' ' << i;
  }
}

TEST(SoftmaxAttention, AddsALargeMaskWithoutItsMatrix) {
  const at::Tensor alpha = at::tensor({0.7F, 0.4F, -0.2F}).requires_grad_();
  const auto series = [&](int64_t nodes) { return power_series_mask(Graph::cycle(nodes).normalised(0.9), alpha); };
  expect_added(series(1088), alpha, 128 << 20);
  for (const int64_t nodes : {2304, 4160}) {  // N×N in float32: 20 and 66 MiB, of which training makes several
    expect_added(series(nodes), alpha, 60 << 20);
  }
}

TEST(SoftmaxAttention, AddsTilesWithoutTheirMatrix) {
  for (const int64_t side : {16, 40, 48}) {  // N×N in float32: 0.25, 10 and 20 MiB
    const at::Tensor offsets = normal({2 * side - 1, 2 * side - 1}, 5).to(at::kFloat).requires_grad_();
    const int64_t matrix = side * side * side * side * 4;
    expect_added(toeplitz_mask({side, side}, offsets), offsets, side < 40 ? 128 << 20 : matrix);
  }
}

}  // namespace
}  // namespace topomask
