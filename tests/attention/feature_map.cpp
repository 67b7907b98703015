#include "topomask/feature_map.h"

#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

using testing::close;
using testing::normal;

TEST(FeatureMap, ComputesItsFormula) {
  const at::Tensor x = normal({3, 5}, 1);
  EXPECT_TRUE(close(FeatureMap::identity()(x), x, 0));
  EXPECT_TRUE(close(FeatureMap::relu()(x), x.clamp_min(0), 0));
  EXPECT_TRUE(close(FeatureMap::relu(0.5)(x), x.clamp_min(0) + 0.5, 0));
  EXPECT_TRUE(close(FeatureMap::elu()(x), at::where(x > 0, x + 1, x.exp()), 1e-15));
  EXPECT_TRUE(close(FeatureMap::exp()(x), x.exp(), 0));
  EXPECT_TRUE(close(FeatureMap::squared_relu()(x), x.clamp_min(0).square(), 0));
  EXPECT_TRUE(close(FeatureMap::exp().scaled(Scaling::inverse_sqrt)(x), (x / std::sqrt(5.0)).exp(), 1e-15));
  EXPECT_TRUE(close(FeatureMap::exp().scaled(Scaling::inverse_fourth_root)(x), (x / std::pow(5.0, 0.25)).exp(), 1e-15));
}

TEST(FeatureMap, KnowsWhetherItIsReluAlone) {
  EXPECT_EQ(FeatureMap::relu().relu_offset(), 0.0);
  EXPECT_EQ(FeatureMap::relu(0.1).scaled(Scaling::none).relu_offset(), 0.1);
  EXPECT_FALSE(FeatureMap::relu().scaled(Scaling::inverse_sqrt).relu_offset());
  EXPECT_FALSE(FeatureMap::custom("relu", [](const at::Tensor& x) { return x.relu().clamp_max(6); }).relu_offset());
  EXPECT_FALSE(FeatureMap::identity().relu_offset());
}

TEST(FeatureMap, FavorEstimatesTheSoftmaxKernel) {
  // Short vectors: the estimator's tails are light enough for a normal approximation.
  const at::Tensor q = normal({4, 8}, 2) * 0.6, k = normal({4, 8}, 3) * 0.6;
  const at::Tensor exact = (at::matmul(q, k.mT()) / std::sqrt(8.0)).exp();
  std::vector<at::Tensor> estimates;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const FeatureMap map = FeatureMap::favor(8, 16, {.seed = seed});
    estimates.push_back(at::matmul(map(q), map(k).mT()));
  }
  const at::Tensor all = at::stack(estimates);
  const at::Tensor standard_error = all.std(0) / std::sqrt(200.0);
  EXPECT_LT(((all.mean(0) - exact) / standard_error).abs().max().item<double>(), 4.5);
}

TEST(FeatureMap, FavorDirectionsAreOrthogonalInBlocks) {
  const at::Tensor omega = favor_directions(11, 4, 5);
  EXPECT_EQ(omega.sizes(), (std::vector<int64_t>{11, 4}));
  for (int64_t block : {0, 4}) {
    const at::Tensor gram = at::matmul(omega.narrow(0, block, 4), omega.narrow(0, block, 4).mT());
    EXPECT_LT((gram - at::diag(gram.diagonal())).abs().max().item<double>(), 1e-12);
  }
  EXPECT_TRUE(at::equal(omega, favor_directions(11, 4, 5)));
  EXPECT_FALSE(at::equal(omega, favor_directions(11, 4, 6)));
}

TEST(FeatureMap, RedrawsWithAnotherSeed) {
  const at::Tensor x = normal({3, 4}, 6);
  const FeatureMap map = FeatureMap::favor(4, 8, {.seed = 1});
  EXPECT_TRUE(at::equal(map.redrawn(2)(x), FeatureMap::favor(4, 8, {.seed = 2})(x)));
  EXPECT_FALSE(at::equal(map.redrawn(2)(x), map(x)));
}

TEST(FeatureMap, StabilisationCancelsInAttention) {
  const at::Tensor q = normal({2, 7, 4}, 7), k = normal({2, 7, 4}, 8), v = normal({2, 7, 3}, 9);
  const MaskPtr mask = neighbours_mask(Graph::path(7).to(at::kDouble));
  const at::Tensor plain = attention(q, k, v, mask, {.features = FeatureMap::favor(4, 8, {.seed = 3}), .eps = 1e-300});
  const FeatureMap stable = FeatureMap::favor(4, 8, {.seed = 3, .stabilised = true});
  EXPECT_TRUE(close(attention(q, k, v, mask, {.features = stable, .eps = 1e-300}), plain, 1e-10));
  EXPECT_TRUE(close(stable.queries(q).amax(-1), at::full({2, 7}, 1 / std::sqrt(8.0), at::kDouble), 1e-12));
  // Queries whose exponents overflow float32: the largest feature is 1/√m, the others as in double. An exponent of size
  // 1e5 is known to 1e5·2⁻²⁴ in float32.
  const at::Tensor large = (q * 100).to(at::kFloat), features = stable.queries(large.to(at::kDouble));
  EXPECT_GT(large.square().sum(-1).max().item<double>() / 2, 1e4);
  EXPECT_TRUE(close(stable.queries(large), features, 0.02));
  EXPECT_TRUE(close(stable.queries(large).amax(-1), at::full({2, 7}, 1 / std::sqrt(8.0)), 1e-6));
}

TEST(FeatureMap, SaysWhatIsWrong) {
  EXPECT_ERROR(FeatureMap::relu(INFINITY), "FeatureMap::relu: offset must be finite, got inf");
  EXPECT_ERROR(FeatureMap::custom("mine", nullptr), "FeatureMap::custom: function must be callable");
  EXPECT_ERROR(FeatureMap::favor(4, 0), "favor_directions: features must be >= 1, got 0");
  EXPECT_ERROR(FeatureMap::favor(0, 4), "favor_directions: head_dim must be >= 1, got 0");
  EXPECT_ERROR(FeatureMap::favor(at::zeros({3})),
               "FeatureMap::favor: omega must be Float or Double [m, d_k], m >= 1, got Float[3]");
  EXPECT_ERROR(FeatureMap::favor(4, 8)(at::zeros({2, 5})),
               "FeatureMap::favor: x must be [..., d_k = 4], got Float[2, 5]");
  EXPECT_ERROR(FeatureMap::favor(4, 8).scaled(Scaling::inverse_sqrt),
               "map must be one without its own scaling, got favor");
  EXPECT_ERROR(FeatureMap::relu().redrawn(1), "map must be FAVOR+ with seeded directions, got relu");
  EXPECT_ERROR(FeatureMap::favor(at::ones({2, 3})).redrawn(1), "got favor with given ones");
}

}  // namespace
}  // namespace topomask
