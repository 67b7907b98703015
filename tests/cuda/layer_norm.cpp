#include "cuda/on_cuda.h"
#include "ops/layer_norm_rows/op.h"
#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask {
namespace {

using LayerNormRowsCuda = testing::OnCuda;

std::vector<at::Tensor> by_torch_in_double(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                           const at::Tensor& slope) {
  std::vector<at::Tensor> exact{x, weight, bias};
  for (at::Tensor& one : exact) one = one.detach().to(at::kDouble).requires_grad_();
  const at::Tensor out = at::layer_norm(exact[0], {x.size(-1)}, exact[1], exact[2], 1e-5);
  std::vector<at::Tensor> all = testing::gradients(out, slope.to(at::kDouble), exact);
  all.insert(all.begin(), out);
  return all;
}

/// More rows than the chip holds at once, and a last block that is not full. Among so many rows of four values, some
/// are nearly constant, where float32 loses digits.
TEST_F(LayerNormRowsCuda, AreTheDoublesOverManyRows) {
  for (const int64_t width : {4, 64, 128, 256}) {
    for (const auto& [type, out_type, tolerance] :
         std::vector<std::tuple<at::ScalarType, at::ScalarType, double>>{{at::kFloat, at::kFloat, 1e-5},
                                                                         {at::kFloat, at::kBFloat16, 1e-2},
                                                                         {at::kBFloat16, at::kBFloat16, 1e-2},
                                                                         {at::kHalf, at::kHalf, 2e-3}}) {
      const auto drawn = [&](at::IntArrayRef sizes, uint64_t seed, at::ScalarType dtype) {
        return (testing::normal(sizes, seed) + 2).to(cuda_, dtype).requires_grad_();
      };
      const at::Tensor x = drawn({100'003, width}, 1, type), weight = drawn({width}, 2, at::kFloat),
                       bias = drawn({width}, 3, at::kFloat), slope = testing::normal(x.sizes(), 4).to(cuda_, out_type);
      const auto results = [&] {
        const at::Tensor out = ops::layer_norm_rows::norm(x, weight, bias, 1e-5, out_type);
        std::vector<at::Tensor> all = testing::gradients(out, slope, {x, weight, bias});
        all.insert(all.begin(), out);
        return all;
      };
      const auto want = by_torch_in_double(x, weight, bias, slope), got = results(), again = results();
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(testing::close(got[i], want[i], width == 4 ? std::max(tolerance, 1e-4) : tolerance))
            << i << ' ' << width << type << out_type;
        EXPECT_TRUE(got[i].equal(again[i])) << "not the same again: " << i << ' ' << width << type << out_type;
      }
    }
  }
}

/// A large mean with small differences, which a variance from squares alone would lose.
TEST_F(LayerNormRowsCuda, KeepSmallDifferencesAroundALargeMean) {
  const at::Tensor x = (testing::normal({1000, 64}, 1) * 0.5 + 3000).to(cuda_, at::kFloat), one = at::ones({64}, cuda_),
                   none = at::zeros({64}, cuda_);
  const at::Tensor out = ops::layer_norm_rows::norm(x, one, none, 1e-5, at::kFloat);
  EXPECT_TRUE(testing::close(out, at::layer_norm(x.to(at::kDouble), {64}), 2e-3));
}

TEST_F(LayerNormRowsCuda, TakeNoRows) {
  const at::Tensor x = at::empty({0, 64}, cuda_).requires_grad_(), weight = at::rand({64}, cuda_).requires_grad_();
  const at::Tensor out = ops::layer_norm_rows::norm(x, weight, weight, 1e-5, at::kFloat);
  EXPECT_EQ(out.sizes(), x.sizes());
  EXPECT_TRUE(testing::gradients(out, at::empty_like(out), {weight})[0].equal(at::zeros({64}, cuda_)));
}

}  // namespace
}  // namespace topomask
