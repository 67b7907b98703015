#include "topomask/coefficients.h"

#include <ATen/core/grad_mode.h>

#include "support/compare.h"
#include "support/golden.h"
#include "support/mask_contract.h"

namespace topomask {
namespace {

using testing::close;
using testing::golden;
using testing::gradients;
using testing::normal;

TEST(Coefficients, DeconvolveTheReferenceSeries) {
  const auto values = golden("coefficients");
  for (const char* name : {"exp_0.5", "geometric_0.6", "cosine", "random"}) {
    const at::Tensor &alpha = values.at(std::string(name) + "_alpha"), &f = values.at(std::string(name) + "_f");
    EXPECT_TRUE(close(deconvolve(alpha), f, 1e-10)) << name;
    EXPECT_TRUE(close(convolve(f), alpha, 1e-10)) << name;
  }
}

TEST(Coefficients, KnowTheirKernels) {
  const auto values = golden("coefficients");
  EXPECT_TRUE(close(diffusion_coefficients(12, 0.5), values.at("exp_0.5_f"), 1e-12));
  EXPECT_TRUE(close(cosine_coefficients(12), values.at("cosine_f"), 1e-12));
  // (1 − 0.6x)^−1: the coefficients of d = 1 times 0.6^k.
  const at::Tensor powers = at::pow(0.6, at::arange(12, at::kDouble));
  EXPECT_TRUE(close(regularised_laplacian_coefficients(12, 1) * powers, values.at("geometric_0.6_f"), 1e-12));
  EXPECT_TRUE(close(regularised_laplacian_coefficients(5, 2), at::ones({5}, at::kDouble), 1e-15));
  EXPECT_TRUE(close(random_walk_coefficients(5, 4), at::tensor({1., 2., 1., 0., 0.}, at::kDouble), 1e-15));
  EXPECT_TRUE(close(convolve(random_walk_coefficients(5, 3)), at::tensor({1., 3., 3., 1., 0.}, at::kDouble), 1e-14));
  EXPECT_TRUE(close(convolve(regularised_laplacian_coefficients(5, 3)), at::tensor({1., 3., 6., 10., 15.}, at::kDouble),
                    1e-14));
  EXPECT_EQ(diffusion_coefficients(0).size(0), 0);
}

TEST(Coefficients, ConvolveIsTheSquareOfThePolynomial) {
  const at::Tensor f = normal({4}, 1), x = at::tensor({-0.7, 0.2, 1.3}, at::kDouble).unsqueeze(1);
  const auto at_x = [&](const at::Tensor& series) {
    return (series * at::pow(x, at::arange(series.size(0), at::kDouble))).sum(1);
  };
  EXPECT_TRUE(close(at_x(convolve(f, 2, 7)), at_x(f).square(), 1e-12));
  EXPECT_TRUE(close(at_x(convolve(f, 3, 10)), at_x(f).pow(3), 1e-12));
  EXPECT_TRUE(close(convolve(f, 1), f, 0));
  EXPECT_TRUE(close(convolve(f, 2, 9), at::constant_pad_nd(convolve(f, 2, 7), {0, 2}), 0)) << "zeros beyond 2K - 1";
}

TEST(Coefficients, DeconvolveIntoManyFactorsAndBack) {
  const at::Tensor alpha = at::pow(0.8, at::arange(9, at::kDouble)) * 3;
  for (int64_t factors : {1, 2, 4, 6}) {
    const at::Tensor f = deconvolve(alpha, factors);
    EXPECT_NEAR(f[0].item<double>(), std::pow(3.0, 1.0 / static_cast<double>(factors)), 1e-14);
    EXPECT_TRUE(close(convolve(f, factors), alpha, 1e-12)) << factors;
  }
}

TEST(Coefficients, WorkPerHeadAndInFloat) {
  const at::Tensor alpha = normal({3, 6}, 2).abs() + 0.5, f = deconvolve(alpha);
  for (int64_t h = 0; h < 3; ++h) EXPECT_TRUE(close(f[h], deconvolve(alpha[h]), 1e-14));
  EXPECT_TRUE(close(convolve(f), alpha, 1e-12));
  EXPECT_EQ(deconvolve(alpha.to(at::kFloat)).scalar_type(), at::kFloat);
  EXPECT_TRUE(close(convolve(at::empty({2, 0}), 2, 3), at::zeros({2, 3}), 0));
  EXPECT_EQ(deconvolve(at::empty({0})).size(0), 0);
}

/// Central differences of ⟨g, function(x)⟩.
template <class Function>
at::Tensor differences(const Function& function, const at::Tensor& x, const at::Tensor& g) {
  const at::NoGradGuard no_grad;
  at::Tensor gradient = at::zeros_like(x);
  for (int64_t k = 0; k < x.numel(); ++k) {
    const at::Tensor up = x.detach().clone(), down = x.detach().clone();
    up.view(-1)[k] += 1e-6;
    down.view(-1)[k] -= 1e-6;
    gradient.view(-1)[k] = ((function(up) - function(down)) * g).sum() / 2e-6;
  }
  return gradient;
}

TEST(Coefficients, HaveGradients) {
  const at::Tensor x = (normal({2, 5}, 3).abs() + 0.5).requires_grad_(), g = normal({2, 5}, 4);
  const auto inverse = [](const at::Tensor& alpha) { return deconvolve(alpha, 4); };
  const auto forward = [](const at::Tensor& f) { return convolve(f, 3); };
  EXPECT_TRUE(close(gradients(inverse(x), g, {x})[0], differences(inverse, x, g), 1e-7));
  EXPECT_TRUE(close(gradients(forward(x), g, {x})[0], differences(forward, x, g), 1e-7));
}

TEST(Coefficients, SayWhatIsWrong) {
  EXPECT_ERROR(deconvolve(at::tensor({0., 1.}, at::kDouble)),
               "deconvolve: alpha must begin with a positive coefficient, got 0");
  EXPECT_ERROR(deconvolve(at::tensor({-2., 1.}, at::kDouble)), "got -2; a mask with alpha_0 <= 0 is not a product");
  EXPECT_ERROR(deconvolve(at::ones({2}, at::kLong)), "alpha must be Float or Double, [K] or [H, K], got Long[2]");
  EXPECT_ERROR(deconvolve(at::ones({2}), 0), "deconvolve: factors must be >= 1, got 0");
  EXPECT_ERROR(convolve(at::ones({2, 2, 2})), "convolve: f must be Float or Double, [K] or [H, K], got Float[2, 2, 2]");
  EXPECT_ERROR(convolve(at::ones({2}), 0), "convolve: factors must be >= 1, got 0");
  EXPECT_ERROR(convolve(at::ones({2}), 2, -1), "convolve: terms must be >= 0, got -1");
  EXPECT_ERROR(diffusion_coefficients(-1), "diffusion_coefficients: terms must be >= 0, got -1");
}

}  // namespace
}  // namespace topomask
