#include "support/compare.h"
#include "topomask/coefficients.h"
#include "topomask/theory.h"

namespace topomask {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TEST(CoefficientArguments, ParametersAreFinite) {
  EXPECT_ERROR(diffusion_coefficients(4, NAN), "diffusion_coefficients: b must be finite, got nan");
  EXPECT_ERROR(diffusion_coefficients(4, INFINITY), "diffusion_coefficients: b must be finite, got inf");
  EXPECT_ERROR(diffusion_coefficients(4, 1e200),
               "diffusion_coefficients: b must give finite coefficients, got 1e+200, which gives inf at 2");
  EXPECT_ERROR(regularised_laplacian_coefficients(4, NAN),
               "regularised_laplacian_coefficients: d must be finite, got nan");
  EXPECT_ERROR(random_walk_coefficients(4, -INFINITY), "random_walk_coefficients: p must be finite, got -inf");
}

TEST(CoefficientArguments, CountsAreBounded) {
  EXPECT_ERROR(diffusion_coefficients(kHuge), "diffusion_coefficients: terms must be at most 2^24, got ");
  EXPECT_ERROR(cosine_coefficients(-1), "cosine_coefficients: terms must be >= 0, got -1");
  EXPECT_ERROR(convolve(at::ones({2}), 2, kHuge), "convolve: terms must be at most 2^24, got ");
  EXPECT_ERROR(convolve(at::ones({2}), kHuge), "convolve: factors must be at most 2^16, got ");
  EXPECT_ERROR(deconvolve(at::ones({2}), kHuge), "deconvolve: factors must be at most 2^16, got ");
}

TEST(CoefficientArguments, SeriesAreFinite) {
  EXPECT_ERROR(convolve(at::tensor({1., NAN})), "convolve: f must be finite, got nan at 1");
  EXPECT_ERROR(deconvolve(at::tensor({1., INFINITY})), "deconvolve: alpha must be finite, got inf at 1");
  EXPECT_ERROR(deconvolve(at::tensor({NAN, 1.})), "deconvolve: alpha must be finite, got nan at 0");
}

TEST(BoundArguments, AreFiniteAndInRange) {
  const Graph graph = Graph::path(4);
  const at::Tensor f = at::ones({2}), bad = at::tensor({1.F, NAN});
  EXPECT_ERROR(walk_constant(graph, bad, 0.5), "walk_constant: f must be finite, got nan at 1");
  EXPECT_ERROR(walk_constant(graph, f, NAN), "walk_constant: halting_probability must be in (0, 1), got nan");
  EXPECT_ERROR(telescoping_walk_constant(graph, f, 0.5, INFINITY),
               "telescoping_walk_constant: scale must be finite, got inf");
  EXPECT_ERROR(concentration_bound(4, INFINITY, 1), "concentration_bound: deviation must be finite, got inf");
  EXPECT_ERROR(concentration_bound(4, 1, INFINITY), "concentration_bound: constant must be finite, got inf");
  EXPECT_ERROR(walkers_for(INFINITY, 0.1, 1), "walkers_for: deviation must be finite, got inf");
  EXPECT_ERROR(walkers_for(1, 1.5, 1), "walkers_for: probability must be at most 1, got 1.5");
  EXPECT_ERROR(feature_entries_bound(4, 1e-300, 0.05), "must give a bound below 2^63, got 4 and 1e-300");
  const WalkTable walks = sample_walks(graph);
  EXPECT_ERROR(attention_flops(walks, -1, 4), "attention_flops: features must be >= 0, got -1");
  EXPECT_ERROR(attention_flops(walks, 4, -1), "attention_flops: value_dim must be >= 0, got -1");
  EXPECT_ERROR(mask_error(graph, {.walkers = int64_t{1} << 30}, f), "must be numbered below 2^32, got 8 of 1073741824");
}

TEST(SuggestArguments, AreFiniteAndInRange) {
  const Graph graph = Graph::path(4);
  const at::Tensor f = at::ones({2});
  EXPECT_ERROR(suggest(graph, at::tensor({1.F, NAN}), 0.1), "suggest: f must be finite, got nan at 1");
  EXPECT_ERROR(auto_mask(graph, at::tensor({1.F, NAN}), 0.1), "auto_mask: alpha must be finite, got nan at 1");
  EXPECT_ERROR(suggest(graph, f, INFINITY), "suggest: tolerance must be in (0, 1), got inf");
  EXPECT_ERROR(suggest(graph, f, NAN), "suggest: tolerance must be in (0, 1), got nan");
  EXPECT_ERROR(suggest(graph, f, 0.1, {.max_walkers = kHuge}), "suggest: max_walkers must be at most 2^31-1, got ");
  EXPECT_ERROR(suggest(graph, f, 0.1, {.features = 0}), "suggest: features must be >= 1, got 0");
  EXPECT_ERROR(suggest(graph, f, 0.1, {.value_dim = -2}), "suggest: value_dim must be >= 1, got -2");
}

}  // namespace
}  // namespace topomask
