// Exponentials in closed form: hypercubes, Cartesian products, low rank.

#include "support/compare.h"
#include "support/golden.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/diffusion.h"
#include "topomask/global_tokens.h"

namespace topomask {
namespace {

using testing::close;
using testing::expect_mask_is;
using testing::normal;

at::Tensor scalar(double value) {
  return at::scalar_tensor(value, at::kDouble).requires_grad_();
}

/// exp(−λT), T = D − A or −A, for λ [] or [H].
at::Tensor exponential(const Graph& graph, const at::Tensor& lambda, Generator generator = Generator::laplacian) {
  const at::Tensor a = graph.to(at::kDouble).matrix().dense();
  const at::Tensor t = generator == Generator::laplacian ? a.sum(1).diag() - a : -a;
  return at::linalg_matrix_exp(-lambda.unsqueeze(-1).unsqueeze(-1) * t);
}

at::Tensor low_rank_exponential(const at::Tensor& u, const at::Tensor& v, const at::Tensor& lambda) {
  return at::linalg_matrix_exp(lambda.unsqueeze(-1).unsqueeze(-1) * at::matmul(u, v.t()));
}

TEST(HypercubeDiffusion, MatchesReferenceValues) {
  for (int64_t dimensions : {1, 3, 4}) {
    const auto golden = testing::golden("hypercube_" + std::to_string(dimensions));
    const MaskPtr mask = hypercube_diffusion_mask(dimensions, golden.at("lam"));
    EXPECT_TRUE(close(mask->dense(), golden.at("mask"), 1e-10));
  }
}

TEST(HypercubeDiffusion, IsTheMatrixExponential) {
  for (int64_t dimensions : {0, 1, 4}) {
    const at::Tensor lambda = scalar(0.4);
    expect_mask_is(hypercube_diffusion_mask(dimensions, lambda), exponential(Graph::hypercube(dimensions), lambda));
  }
  const at::Tensor heads = at::tensor({0.1, 0.2, 1.5}, at::kDouble).requires_grad_();
  expect_mask_is(hypercube_diffusion_mask(3, heads), exponential(Graph::hypercube(3), heads));
}

TEST(HypercubeDiffusion, TakesAnEmptyBatch) {
  const at::Tensor lambda = scalar(0.3), x = at::zeros({0, 8, 3}, at::kDouble).requires_grad_();
  const MaskPtr mask = hypercube_diffusion_mask(3, lambda);
  const at::Tensor y = mask->matmul(x);
  EXPECT_EQ(y.sizes(), x.sizes());
  const auto grads = testing::gradients(y, at::zeros_like(y), {x, lambda});
  EXPECT_EQ(grads[0].sizes(), x.sizes());
  EXPECT_TRUE(close(grads[1], at::zeros({}, at::kDouble), 0));
}

TEST(HypercubeDiffusion, AgreesWithTheGenericMask) {
  const at::Tensor lambda = at::scalar_tensor(0.3);
  const MaskPtr generic = diffusion_mask(Graph::hypercube(10), lambda, {.tolerance = 1e-7});
  const MaskPtr closed = hypercube_diffusion_mask(10, lambda);
  for (int64_t columns : {1, 33, 200}) {
    const at::Tensor x = at::rand({2, 1024, columns});
    EXPECT_TRUE(close(closed->matmul(x), generic->matmul(x), 3e-6));
  }
}

TEST(HypercubeDiffusion, SaysWhatIsWrong) {
  const at::Tensor lambda = at::scalar_tensor(0.4);
  EXPECT_ERROR(hypercube_diffusion_mask(-1, lambda), "hypercube_diffusion_mask: dimensions must be in [0, 30], got -1");
  EXPECT_ERROR(hypercube_diffusion_mask(31, lambda), "dimensions must be in [0, 30], got 31");
  EXPECT_ERROR(hypercube_diffusion_mask(3, -lambda),
               "hypercube_diffusion_mask: lambda must be finite and >= 0, got -0.4");
  const at::Tensor written = lambda.clone();
  const MaskPtr mask = hypercube_diffusion_mask(3, written);
  written.fill_(-1);
  EXPECT_ERROR(mask->tiles(), "hypercube_diffusion_mask: lambda must be finite and >= 0, got -1");
  EXPECT_ERROR(hypercube_diffusion_mask(3, at::ones({1}, at::kLong)), "lambda must be Float or Double, [] or [H]");
}

TEST(ProductDiffusion, MatchesReferenceValues) {
  const auto golden = testing::golden("product_path4_cycle5");
  const std::vector<Graph> factors{Graph::path(4), Graph::cycle(5)};
  EXPECT_TRUE(close(product_diffusion_mask(factors, golden.at("lam"))->dense(), golden.at("mask_laplacian"), 1e-10));
  EXPECT_TRUE(close(product_diffusion_mask(factors, golden.at("lam"), Generator::adjacency)->dense(),
                    golden.at("mask_adjacency"), 1e-10));
}

TEST(ProductDiffusion, IsTheExponentialOfTheProduct) {
  const Graph path = Graph::path(3).to(at::kDouble), star = Graph::star(4).to(at::kDouble);
  const Graph weighted = Graph::cycle(5).normalised(0.7).to(at::kDouble);
  const Graph three = cartesian_product(cartesian_product(path, weighted), star);
  const at::Tensor lambda = scalar(0.4), heads = at::tensor({0.1, 0.9}, at::kDouble).requires_grad_();
  for (Generator generator : {Generator::laplacian, Generator::adjacency}) {
    expect_mask_is(product_diffusion_mask({path}, lambda, generator), exponential(path, lambda, generator));
    expect_mask_is(product_diffusion_mask({path, weighted}, heads, generator),
                   exponential(cartesian_product(path, weighted), heads, generator));
    expect_mask_is(product_diffusion_mask({path, weighted, star}, lambda, generator),
                   exponential(three, lambda, generator));
  }
}

TEST(ProductDiffusion, AgreesWithTheGenericMask) {
  const at::Tensor lambda = scalar(2.0), x = normal({2, 19 * 23, 7}, 1);
  const MaskPtr closed = product_diffusion_mask({Graph::path(19), Graph::path(23)}, lambda);
  const MaskPtr generic = diffusion_mask(Graph::grid({19, 23}).to(at::kDouble), lambda, {.tolerance = 1e-13});
  EXPECT_TRUE(close(closed->matmul(x), generic->matmul(x), 1e-11));
}

TEST(ProductDiffusion, AcceptsNoNodes) {
  const at::Tensor x = at::zeros({2, 0, 3});
  const MaskPtr mask = product_diffusion_mask({Graph::path(3), Graph::path(0)}, at::scalar_tensor(1.0));
  EXPECT_EQ(mask->matmul(x).sizes(), x.sizes());
}

TEST(ProductDiffusion, ConvertsBetweenPrecisions) {
  const MaskPtr mask = product_diffusion_mask({Graph::path(3), Graph::cycle(4)}, at::scalar_tensor(0.5));
  EXPECT_TRUE(close(mask->to(at::kDouble)->dense(), mask->dense(), 1e-6));
  const MaskPtr cube = hypercube_diffusion_mask(3, at::scalar_tensor(0.5));
  EXPECT_TRUE(close(cube->to(at::kDouble)->dense(), cube->dense(), 1e-6));
}

TEST(ProductDiffusion, SaysWhatIsWrong) {
  const at::Tensor lambda = at::scalar_tensor(0.4);
  const at::Tensor zero = at::tensor({0}, at::kLong), one = at::tensor({1}, at::kLong);
  const Graph directed = Graph::from_edges(2, zero, one, {}, {.directed = true});
  EXPECT_ERROR(product_diffusion_mask({}, lambda), "product_diffusion_mask: factors must be at least one graph");
  EXPECT_ERROR(product_diffusion_mask({Graph::path(3), directed}, lambda),
               "product_diffusion_mask: graph must be undirected");
  EXPECT_ERROR(product_diffusion_mask({Graph::path(3)}, lambda, Generator::normalised_laplacian),
               "generator must be adjacency or laplacian, got normalised_laplacian");
  EXPECT_ERROR(product_diffusion_mask({Graph::path(3)}, -lambda), "lambda must be finite and >= 0, got -0.4");
}

TEST(LowRankDiffusion, MatchesReferenceValues) {
  const auto golden = testing::golden("low_rank_diffusion");
  const MaskPtr mask = low_rank_diffusion_mask(golden.at("u"), golden.at("v"), golden.at("lam"));
  EXPECT_TRUE(close(mask->dense(), golden.at("mask"), 1e-10));
}

TEST(LowRankDiffusion, IsTheExponentialOfTheProductOfItsFactors) {
  for (const auto& [nodes, rank] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {13, 3}, {3, 5}, {7, 0}}) {
    const at::Tensor u = (0.4 * normal({nodes, rank}, 2).abs()).requires_grad_();
    const at::Tensor v = (0.4 * normal({nodes, rank}, 3).abs()).requires_grad_();
    const at::Tensor lambda = scalar(0.8), heads = at::tensor({0.1, 0.8}, at::kDouble).requires_grad_();
    expect_mask_is(low_rank_diffusion_mask(u, v, lambda), low_rank_exponential(u, v, lambda), 1e-9);
    expect_mask_is(low_rank_diffusion_mask(u, v, heads), low_rank_exponential(u, v, heads), 1e-9);
  }
}

TEST(LowRankDiffusion, TakesSingularFactors) {
  at::Tensor u = 0.5 * normal({9, 3}, 4).abs(), v = 0.5 * normal({9, 3}, 5).abs();
  u.select(1, 2).copy_(u.select(1, 0));  // VᵀU has a kernel
  v.select(1, 1).zero_();
  u.requires_grad_();
  v.requires_grad_();
  const at::Tensor lambda = scalar(1.1);
  expect_mask_is(low_rank_diffusion_mask(u, v, lambda), low_rank_exponential(u, v, lambda), 1e-9);
}

TEST(LowRankDiffusion, CarriesGlobalTokens) {
  const at::Tensor u = (0.3 * normal({6, 2}, 6).abs()).requires_grad_(), lambda = scalar(0.6);
  expect_mask_is(with_global_tokens(low_rank_diffusion_mask(u, u, lambda), 1),
                 at::constant_pad_nd(low_rank_exponential(u, u, lambda), {1, 0, 1, 0}, 1), 1e-9);
}

TEST(LowRankDiffusion, AcceptsNoNodes) {
  const at::Tensor none = at::zeros({0, 3}), x = at::zeros({2, 0, 4});
  EXPECT_EQ(low_rank_diffusion_mask(none, none, at::scalar_tensor(1.0))->matmul(x).sizes(), x.sizes());
}

TEST(LowRankDiffusion, SaysWhatIsWrong) {
  const at::Tensor u = at::ones({4, 2}), lambda = at::scalar_tensor(0.5);
  EXPECT_ERROR(low_rank_diffusion_mask(at::ones({4}), u, lambda),
               "low_rank_diffusion_mask: u must be Float or Double [N, r], got Float[4]");
  EXPECT_ERROR(low_rank_diffusion_mask(u, at::ones({4, 3}), lambda),
               "low_rank_diffusion_mask: v must be like u, Float[4, 2] on cpu, got Float[4, 3]");
  EXPECT_ERROR(low_rank_diffusion_mask(u, u / 0, lambda), "v must be finite, got inf at [0, 0]");
  EXPECT_ERROR(low_rank_diffusion_mask(u, u, -lambda), "lambda must be finite and >= 0, got -0.5");
  EXPECT_ERROR(low_rank_diffusion_mask(u, u, lambda.to(at::kDouble)), "lambda must be Float as u is");
  const at::Tensor written = lambda.clone();
  const MaskPtr mask = low_rank_diffusion_mask(u, u, written);
  written.fill_(-1);
  for (const auto& form : {+[](const Mask& m) { m.tiles(); }, +[](const Mask& m) { m.dense(); }}) {
    EXPECT_ERROR(form(*mask), "low_rank_diffusion_mask: lambda must be finite and >= 0, got -1");
  }
}

/// The kernels by their formulas, against the mean of many draws: within four standard errors, and the error falls as
/// 1/√features.
TEST(FourierFactors, AreUnbiased) {
  const at::Tensor points = normal({6, 2}, 7);
  const at::Tensor difference = points.unsqueeze(1) - points.unsqueeze(0);
  const double radius = 0.8, blur = radius / 2;
  const at::Tensor gaussian = (-difference.square().sum(-1) / (2 * radius * radius)).exp();
  const at::Tensor box = (0.5 * (at::erf((difference + radius) / (std::sqrt(2) * blur)) -
                                 at::erf((difference - radius) / (std::sqrt(2) * blur))))
                             .prod(-1);
  for (NeighbourKernel kernel : {NeighbourKernel::gaussian, NeighbourKernel::box}) {
    const at::Tensor exact = kernel == NeighbourKernel::gaussian ? gaussian : box;
    std::vector<double> errors;
    for (int64_t features : {16, 256}) {
      std::vector<at::Tensor> draws;
      for (uint64_t seed = 0; seed < 400; ++seed) {
        const auto [u, v] = random_fourier_factors(points, {radius, features, kernel, seed});
        draws.push_back(at::matmul(u, v.t()));
      }
      const at::Tensor all = at::stack(draws);
      const at::Tensor standard_error = all.std(0) / std::sqrt(400.0);
      EXPECT_TRUE(((all.mean(0) - exact).abs() <= 4 * standard_error + 1e-12).all().item<bool>());
      errors.push_back((all - exact).square().mean().item<double>());
    }
    EXPECT_NEAR(errors[0] / errors[1], 16, 3) << "mean squared error falls as 1/features";
  }
}

TEST(FourierFactors, MakeAMaskOfPoints) {
  const at::Tensor points = normal({50, 3}, 8).requires_grad_();
  const at::Tensor lambda = scalar(0.05), x = normal({50, 4}, 9), cotangent = normal({50, 4}, 10);
  const auto product_and_gradients = [&](bool dense) {
    const auto [u, v] = random_fourier_factors(points, {.radius = 0.5, .features = 32});
    EXPECT_EQ(u.sizes(), (std::vector<int64_t>{50, 64}));
    const at::Tensor y =
        dense ? at::matmul(low_rank_exponential(u, v, lambda), x) : low_rank_diffusion_mask(u, v, lambda)->matmul(x);
    std::vector<at::Tensor> all = testing::gradients(y, cotangent, {points, lambda});
    all.push_back(y);
    return all;
  };
  const auto actual = product_and_gradients(false), expected = product_and_gradients(true);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_GT(expected[i].abs().sum().item<double>(), 0);
    EXPECT_TRUE(testing::close(actual[i], expected[i], 1e-9, 1e-9)) << i;
  }
}

TEST(FourierFactors, SayWhatIsWrong) {
  EXPECT_ERROR(random_fourier_factors(at::ones({3})),
               "random_fourier_factors: points must be Float or Double [N, dims] on cpu, got Float[3]");
  EXPECT_ERROR(random_fourier_factors(at::ones({3, 2}) / 0), "points must be finite");
  EXPECT_ERROR(random_fourier_factors(at::ones({3, 2}), {.radius = 0}), "radius must be finite and > 0, got 0");
  EXPECT_ERROR(random_fourier_factors(at::ones({3, 2}), {.features = 0}), "features must be >= 1, got 0");
}

}  // namespace
}  // namespace topomask
