#include <limits>

#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/coefficients.h"
#include "topomask/masks.h"
#include "topomask/power_series.h"
#include "topomask/theory.h"

namespace topomask {
namespace {

using testing::close;
using testing::normal;

TEST(MaskError, IsTheSpreadOfTheMasks) {
  std::vector<MaskPtr> masks;
  std::vector<at::Tensor> matrices;
  for (uint64_t b = 0; b < 5; ++b) {
    matrices.push_back(normal({2, 7, 7}, b));
    masks.push_back(dense_mask(matrices.back()));
  }
  const at::Tensor rows = at::tensor({1, 4, 6}, at::kLong), all = at::stack(matrices).index_select(2, rows);
  const MaskError error = mask_error(masks, rows);
  EXPECT_TRUE(close(error.mean, all.mean(0), 1e-13));
  EXPECT_TRUE(close(error.standard_error, all.std(0), 1e-12));
}

TEST(MaskError, OfOneMatrixIsNothing) {
  const MaskPtr mask = dense_mask(normal({5, 5}, 1));
  EXPECT_EQ(mask_error({mask, mask}, at::arange(5)).relative, 0);
  EXPECT_EQ(mask_error({none_mask(0), none_mask(0)}, at::empty({0}, at::kLong)).relative, 0);
}

TEST(MaskError, IsNotSmallWhereNoiseHidesTheMask) {
  const at::Tensor matrix = normal({5, 5}, 1);
  EXPECT_EQ(mask_error({dense_mask(matrix), dense_mask(-matrix)}, at::arange(5)).relative,
            std::numeric_limits<double>::infinity());
}

TEST(MaskError, IsTheDistanceFromTheExactMask) {
  const Graph graph = Graph::grid({20, 20}).to(at::kDouble).normalised(0.9);
  const at::Tensor f = diffusion_coefficients(8, 1.5);
  const at::Tensor exact = power_series_mask(graph, convolve(f, 2, 15))->dense();
  for (Diagonal diagonal : {Diagonal::shared, Diagonal::debiased}) {
    for (Coupling coupling : {Coupling::independent, Coupling::antithetic}) {
      const WalkOptions walks{.walkers = 16, .max_hops = 7, .coupling = coupling, .group_products = true, .seed = 4};
      const MaskError error = mask_error(graph, walks, f, {.diagonal = diagonal, .batches = 12, .nodes = 400});
      EXPECT_EQ(error.mean.sizes(), (std::vector<int64_t>{400, 400}));
      // Off the diagonal there is no bias: what the walks say is what an exact mask says.
      const at::Tensor off = 1 - at::eye(400, at::kDouble);
      const at::Tensor mask = grf_mask(sample_walks(graph, walks), f, {.diagonal = diagonal})->dense();
      const double measured = ((mask - exact) * off).norm().item<double>();
      const double claimed = (error.standard_error * off).norm().item<double>();
      EXPECT_NEAR(claimed / measured, 1, 0.05);
      const at::Tensor mean_error = (error.mean - exact) * off;
      EXPECT_NEAR(mean_error.norm().item<double>() * std::sqrt(12.0) / claimed, 1, 0.1);
    }
  }
}

TEST(MaskError, FallsWithMoreWalkers) {
  const Graph graph = Graph::grid({16, 16}).normalised(0.9);
  const at::Tensor f = diffusion_coefficients(8).to(at::kFloat);
  const auto at_walkers = [&](int64_t n) { return mask_error(graph, {.walkers = n, .max_hops = 7}, f).relative; };
  EXPECT_NEAR(at_walkers(8) / at_walkers(32), 2, 0.3);
}

TEST(MaskError, SaysWhatIsWrong) {
  const MaskPtr mask = none_mask(3);
  const at::Tensor rows = at::arange(3);
  EXPECT_ERROR(mask_error({mask}, rows), "mask_error: masks must be at least two, got 1");
  EXPECT_ERROR(mask_error({mask, mask}, rows.to(at::kInt)), "mask_error: rows must be Long [r], got Int[3]");
  EXPECT_ERROR(mask_error({mask, none_mask(4)}, rows),
               "masks must be of one size and number of heads, got none of another");
  EXPECT_ERROR(mask_error({mask, nullptr}, rows), "masks must be of one size and number of heads, got none");
  EXPECT_ERROR(mask_error({mask, mask}, rows + 1), "mask_error: rows must be nodes in [0, 3), got 1 to 3");
  EXPECT_ERROR(mask_error(Graph::path(3), {}, at::ones({2}), {.batches = 1}),
               "mask_error: batches must be >= 2, got 1");
  EXPECT_ERROR(mask_error(Graph::path(3), {}, at::ones({2}), {.nodes = -1}), "mask_error: nodes must be >= 0, got -1");
}

}  // namespace
}  // namespace topomask
