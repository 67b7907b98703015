#include "cuda/on_cuda.h"
#include "ops/normalised_weights/op.h"
#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask {
namespace {

using NormalisedWeightsCuda = testing::OnCuda;

/// Parameters of several layers may be views of one vector, which begin at any multiple of four bytes.
TEST_F(NormalisedWeightsCuda, TakeViewsThatBeginAnywhere) {
  const auto view = [&](at::IntArrayRef shape, uint64_t seed) {
    const int64_t size = c10::multiply_integers(shape);
    return (testing::normal({size + 1}, seed).abs() + 0.1).to(cuda_, at::kFloat).slice(0, 1).view(shape);
  };
  const at::Tensor scores = view({2, 2, 24, 32}, 1).requires_grad_(), mask = view({2, 24, 32}, 2).requires_grad_();
  const at::Tensor slope = view({2, 2, 24, 32}, 3);
  const auto results = [&](const at::Tensor& s, const at::Tensor& m) {
    const at::Tensor out = ops::normalised_weights::weights(s, m, 1e-6);
    std::vector<at::Tensor> all = testing::gradients(out, slope.to(s.scalar_type()), {s, m});
    all.push_back(out);
    return all;
  };
  const auto in_double = [](const at::Tensor& x) { return x.detach().to(at::kDouble).requires_grad_(); };
  const auto actual = results(scores, mask), expected = results(in_double(scores), in_double(mask));
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(testing::close(actual[i], expected[i], 1e-5, 1e-6)) << i;
}

}  // namespace
}  // namespace topomask
