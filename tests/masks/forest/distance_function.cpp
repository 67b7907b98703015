#include <ATen/ATen.h>

#include "masks/forest/trees.h"
#include "support/compare.h"

namespace topomask::testing {
namespace {

using F = DistanceFunction;

TEST(DistanceFunction, IsWhatItSays) {
  for (const double x : {0.0, 0.3, 2.5, 11.0}) {
    EXPECT_DOUBLE_EQ(F::exponential(-0.3, 0.1)(x), std::exp(-0.3 * x + 0.1));
    EXPECT_NEAR(F::cosine(1.3, 0.4)(x), std::cos(1.3 * x + 0.4), 1e-14);
    EXPECT_NEAR(F::polynomial({1, -2, 0.5})(x), 1 - 2 * x + 0.5 * x * x, 1e-12);
    const F both = F::product(F::cosine(1.3), F::sum(F::cosine(0.4, 1), F::polynomial({0, 1})));
    EXPECT_NEAR(both(x), std::cos(1.3 * x) * (std::cos(0.4 * x + 1) + x), 1e-12);
    EXPECT_EQ(F::smooth([](double d) { return d * d; })(x), x * x);
    EXPECT_EQ(F::product(F::on_integers([](double d) { return d; }), F::polynomial({2}))(x), 2 * x);
  }
}

TEST(DistanceFunction, RefusesBadArguments) {
  const at::Tensor scalar = at::scalar_tensor(-1.0);
  EXPECT_ERROR(F::exponential(NAN), "DistanceFunction::exponential: a and b must be finite, got nan and 0");
  EXPECT_ERROR(F::exponential(at::ones({2, 2})),
               "DistanceFunction::exponential: a must be float32 or float64, [] or [H], on cpu, got Float[2, 2]");
  EXPECT_ERROR(F::exponential(at::full({2}, INFINITY)),
               "DistanceFunction::exponential: a must be finite, got inf at 0");
  EXPECT_ERROR(F::exponential(scalar, at::ones({2}, at::kDouble)), "b must be Float as a is, got Double[2]");
  EXPECT_ERROR(F::exponential(at::ones({3}), at::ones({2})), "b must have one value or the 3 of a, got Float[2]");
  EXPECT_ERROR(F::table(at::ones({2, 2, 2})),
               "DistanceFunction::table: f must be float32 or float64, [K] or [H, K], on cpu, got Float[2, 2, 2]");
  EXPECT_ERROR(F::table(at::full({2}, NAN)), "DistanceFunction::table: f must be finite, got nan at 0");
  EXPECT_ERROR(F::exponential(-1.0, 1000.0), "DistanceFunction::exponential: b must have a finite exp(b), got 1000");
  EXPECT_ERROR(F::exponential(-1.0)(NAN), "DistanceFunction: distance must be a number, got nan");
  EXPECT_ERROR(F::on_integers(nullptr), "DistanceFunction::on_integers: f must be a function, got none");
  EXPECT_ERROR(F::smooth(nullptr), "DistanceFunction::smooth: f must be a function, got none");
  EXPECT_ERROR(F::smooth([](double) { return 1.0; }, 0.0), "tolerance must be in (0, 1), got 0");
  EXPECT_ERROR(F::polynomial({}), "DistanceFunction::polynomial: coefficients must not be empty, got none");
  EXPECT_ERROR(F::polynomial({1, INFINITY}), "DistanceFunction::polynomial: coefficients must be finite, got inf");
  EXPECT_ERROR(F::cosine(NAN), "DistanceFunction::cosine: omega and phase must be finite, got nan and 0");
  EXPECT_ERROR(F::product(F::table(at::ones({2})), F::cosine(1)),
               "DistanceFunction::product: both functions must be without parameters, got a table");
  EXPECT_ERROR(F::sum(F::cosine(1), F::exponential(scalar)), "got a learnable exponential");
  EXPECT_ERROR(F::table(at::ones({2}))(1.0),
               "DistanceFunction: the function must be without parameters to be called, got a table");
}

TEST(TreeMask, RefusesWhatDoesNotFit) {
  const at::Tensor parent = path_parent(4);
  const auto lengths = [&](double third) { return Forest(parent, at::tensor({0.0, 1.0, 2.0, third}, at::kDouble)); };
  const F table = F::table(at::ones({3}, at::kDouble)), wave = F::cosine(1.0);
  EXPECT_ERROR(tree_mask(lengths(0.5), table),
               "tree_mask: weights must be integers for a function on integers, got 0.5 at node 3");
  EXPECT_ERROR(tree_mask(lengths(0.5), F::on_integers([](double) { return 1.0; })),
               "weights must be integers for a function on integers, got 0.5 at node 3; DistanceFunction::smooth");
  EXPECT_ERROR(tree_mask(lengths(-1), table),
               "tree_mask: weights must be >= 0 unless f is exponential, got -1 at node 3");
  EXPECT_ERROR(tree_mask(lengths(-0.5), wave), "tree_mask: weights must be >= 0 unless f is exponential, got -0.5");
  EXPECT_ERROR(tree_mask(lengths(2e9), table), "tree_mask: distances must be at most 2^30 for a table, got 2e+09");
  EXPECT_ERROR(tree_mask(lengths(1e8), F::on_integers([](double) { return 1.0; })),
               "tree_mask: distances must be below 2^26 for a function on integers, got 1e+08");
  EXPECT_ERROR(tree_mask(lengths(1), F::on_integers([](double d) { return 1 / d; })),
               "tree_mask: f must be finite at every distance, got inf at 0");
  EXPECT_ERROR(tree_mask(lengths(1), F::exponential(at::ones({}))),
               "tree_mask: a must be Double as the forest's weights are, got Float[]");
  const Forest learned(parent, at::ones({4}, at::kDouble).requires_grad_());
  EXPECT_ERROR(tree_mask(learned, wave), "tree_mask: weights must not require grad unless f is exponential");
  EXPECT_ERROR(tree_mask(lengths(1), table)->matmul(at::ones({5, 2}, at::kDouble)), "Mask::matmul: x must be");
}

}  // namespace
}  // namespace topomask::testing
