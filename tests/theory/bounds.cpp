#include "support/compare.h"
#include "support/golden.h"
#include "topomask/coefficients.h"
#include "topomask/theory.h"

namespace topomask {
namespace {

using testing::golden;

TEST(Bounds, AreTheReferenceOnes) {
  const auto values = golden("bounds");
  const at::Tensor rows = values.at("concentration_rows"), sparsity = values.at("sparsity_rows");
  for (int64_t r = 0; r < rows.size(0); ++r) {
    const double expected = rows[r][3].item<double>();
    const double got = concentration_bound(static_cast<int64_t>(rows[r][0].item<double>()), rows[r][1].item<double>(),
                                           rows[r][2].item<double>());
    EXPECT_NEAR(got / expected, 1, 1e-10);
  }
  for (int64_t r = 0; r < sparsity.size(0); ++r) {
    EXPECT_EQ(feature_entries_bound(static_cast<int64_t>(sparsity[r][0].item<double>()), sparsity[r][1].item<double>(),
                                    sparsity[r][2].item<double>()),
              static_cast<int64_t>(std::ceil(sparsity[r][3].item<double>())));
  }
}

TEST(Bounds, TheConstantSumsTheLargestLoads) {
  const at::Tensor f = at::tensor({1., -0.5, 0.25}, at::kDouble);
  const Graph grid = Graph::grid({4, 4}).to(at::kDouble).normalised(0.5);
  // The largest W_ij d_i: from a border node, which has 3 neighbours, to a corner, which has 2.
  const double growth = 0.5 * 3 / std::sqrt(6) / 0.9;
  EXPECT_NEAR(walk_constant(grid, f, 0.1), 1 + 0.5 * growth + 0.25 * growth * growth, 1e-12);
  const double tight = 0.5 / 0.9;
  EXPECT_NEAR(telescoping_walk_constant(grid, f, 0.1, 0.5), std::sqrt(2) * (1 + 0.5 * tight + 0.25 * tight * tight),
              1e-12);
  EXPECT_NEAR(walk_constant(grid, at::stack({f * 0.5, f}), 0.1), walk_constant(grid, f, 0.1), 1e-12) << "largest head";
}

TEST(Bounds, TelescopingIsTighterOnAStar) {
  const Graph star = Graph::star(50).to(at::kDouble).normalised(0.9);
  const at::Tensor f = diffusion_coefficients(10);
  EXPECT_LT(telescoping_walk_constant(star, f, 0.3, 0.9), walk_constant(star, f, 0.3));
}

TEST(Bounds, TheConstantOfAGraphWithoutEdgesIsTheFirstTerm) {
  const at::Tensor f = at::tensor({2., 1.}, at::kDouble);
  EXPECT_EQ(walk_constant(Graph::path(1), f, 0.5), 2);
  EXPECT_EQ(walk_constant(Graph::path(0), at::empty({0}), 0.5), 0);
  EXPECT_EQ(telescoping_walk_constant(Graph::path(0), f, 0.5, 0.0), 2);
  const at::Tensor padded = at::constant_pad_nd(f, {0, 400});
  EXPECT_EQ(walk_constant(Graph::complete(100), padded, 0.1), walk_constant(Graph::complete(100), f, 0.1));
}

TEST(Bounds, WalkersForIsTheInverseFromWhereTheBoundHoldsOnwards) {
  for (double deviation : {0.05, 0.3, 1.0, 1.4, 1.45, 1.5, 3.0}) {
    const int64_t n = walkers_for(deviation, 0.6, 1.0);
    for (int64_t more = n; more < n + 50; ++more) EXPECT_LE(concentration_bound(more, deviation, 1.0), 0.6) << more;
    if (n > 1) {
      EXPECT_GT(concentration_bound(n - 1, deviation, 1.0), 0.6) << deviation;
    }
  }
  // One walker meets 0.65 at this deviation, two do not: the answer must not be 1.
  const double deviation = std::sqrt(2 * std::log(2 / 0.65)) * 1.02;
  ASSERT_LE(concentration_bound(1, deviation, 1.0), 0.65);
  ASSERT_GT(concentration_bound(2, deviation, 1.0), 0.65);
  EXPECT_EQ(walkers_for(deviation, 0.65, 1.0), 3);
  EXPECT_EQ(walkers_for(100, 0.1, 1.0), 1);
}

TEST(Bounds, SayWhatIsWrong) {
  const Graph graph = Graph::path(3);
  EXPECT_ERROR(walk_constant(graph, at::ones({2}), 1.0), "walk_constant: halting_probability must be in (0, 1), got 1");
  EXPECT_ERROR(walk_constant(graph, at::ones({2}, at::kLong), 0.5), "walk_constant: f must be Float or Double");
  EXPECT_ERROR(telescoping_walk_constant(graph, at::ones({2}), 0.0), "halting_probability must be in (0, 1), got 0");
  EXPECT_ERROR(concentration_bound(0, 1, 1), "concentration_bound: walkers must be >= 1, got 0");
  EXPECT_ERROR(concentration_bound(1, 0, 1), "concentration_bound: deviation must be > 0, got 0");
  EXPECT_ERROR(concentration_bound(1, 1, 0), "concentration_bound: constant must be > 0, got 0");
  EXPECT_ERROR(walkers_for(0, 0.1, 1), "walkers_for: deviation must be > 0, got 0");
  EXPECT_ERROR(walkers_for(1, 0, 1), "walkers_for: probability must be > 0, got 0");
  EXPECT_ERROR(walkers_for(1, 0.1, 0), "walkers_for: constant must be > 0, got 0");
  EXPECT_ERROR(walkers_for(1e-9, 0.1, 10), "walkers_for: deviation and probability must be within reach");
  EXPECT_ERROR(feature_entries_bound(0, 0.5, 0.1), "feature_entries_bound: walkers must be >= 1, got 0");
  EXPECT_ERROR(feature_entries_bound(2, 0.5, 1), "feature_entries_bound: delta must be in (0, 1), got 1");
}

TEST(Flops, AreThoseOfThePapersFigure) {
  const Graph path = Graph::path(4096).normalised();
  constexpr uint64_t kSeeds = 10;
  double grf = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const WalkTable walks = sample_walks(path, {.walkers = 4, .halting_probability = 0.5, .seed = seed});
    const AttentionFlops flops = attention_flops(walks, 8, 8);
    EXPECT_EQ(flops.softmax, 536870912);
    EXPECT_EQ(flops.linear, 1048576);
    grf += flops.grf / kSeeds;
  }
  EXPECT_NEAR(grf, 3.30e6, 0.01e6);
  EXPECT_EQ(attention_flops(sample_walks(Graph::path(0)), 8, 8).grf, 0);
}

}  // namespace
}  // namespace topomask
