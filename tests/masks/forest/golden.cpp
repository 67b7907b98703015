#include "support/golden.h"

#include "masks/forest/trees.h"
#include "support/compare.h"

namespace topomask::testing {
namespace {

constexpr double kTolerance = 1e-10;

class ForestGolden : public ::testing::TestWithParam<const char*> {
 protected:
  std::map<std::string, at::Tensor> values = golden(std::string("forest_") + GetParam());
};

TEST_P(ForestGolden, ExponentialAndItsGradients) {
  const at::Tensor a = values["a"].clone().requires_grad_(), b = values["b"].clone().requires_grad_();
  const at::Tensor weight = values["weight"].detach().clone().requires_grad_();
  const MaskPtr mask = tree_mask(Forest(values["parent"], weight), DistanceFunction::exponential(a, b));
  const at::Tensor y = mask->matmul(values["x"]);
  EXPECT_TRUE(close(y, values["y_exp"], kTolerance));
  EXPECT_TRUE(close(mask->dense(), values["mask_exp"], kTolerance));
  const auto grads = gradients(y, values["gy"], {a, b, weight});
  EXPECT_TRUE(close(grads[0], values["grad_a"], kTolerance));
  EXPECT_TRUE(close(grads[1], values["grad_b"], kTolerance));
  EXPECT_TRUE(close(grads[2], values["grad_weight"], kTolerance));
}

TEST_P(ForestGolden, TableAndItsGradient) {
  const at::Tensor f = values["f"].detach().clone().requires_grad_();
  const MaskPtr mask =
      tree_mask(Forest(values["parent"], values["weight_int"].to(at::kDouble)), DistanceFunction::table(f));
  const at::Tensor y = mask->matmul(values["x"]);
  EXPECT_TRUE(close(y, values["y_f"], kTolerance));
  EXPECT_TRUE(close(mask->dense(), values["mask_f"], kTolerance));
  EXPECT_TRUE(close(gradients(y, values["gy"], {f})[0], values["grad_f"], kTolerance));
}

TEST_P(ForestGolden, SmoothWithinItsTolerance) {
  const Forest forest(values["parent"], values["weight"].detach());
  for (const double tolerance : {1e-4, 1e-8, 1e-12}) {
    const auto rational = DistanceFunction::smooth([](double d) { return 1 / (1 + d * d); }, tolerance);
    // N terms, each off by at most the tolerance times max|f| = 1.
    const double bound = tolerance * values["x"].abs().sum(0).max().item<double>() + 1e-13;
    const at::Tensor y = tree_mask(forest, rational)->matmul(values["x"]);
    EXPECT_LE((y - values["y_rational"]).abs().max().item<double>(), bound) << tolerance;
  }
}

TEST_P(ForestGolden, ProductOfCosineAndExponential) {
  const auto f = DistanceFunction::product(DistanceFunction::cosine(1.0), DistanceFunction::exponential(-0.2));
  const MaskPtr mask = tree_mask(Forest(values["parent"], values["weight"].detach()), f);
  EXPECT_TRUE(close(mask->matmul(values["x"]), values["y_cosexp"], kTolerance));
}

INSTANTIATE_TEST_SUITE_P(All, ForestGolden,
                         ::testing::Values("path9", "star8", "binary15", "random40", "forest20", "single"));

}  // namespace
}  // namespace topomask::testing
