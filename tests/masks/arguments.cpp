#include "support/compare.h"
#include "topomask/topomask.h"

namespace topomask {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TEST(MaskArguments, SizesStayBelowTwoToThe31) {
  EXPECT_ERROR(none_mask(kHuge), "none_mask: nodes must be in [0, 2^31-1], got 9223372036854775807");
  EXPECT_ERROR(none_mask(-1), "none_mask: nodes must be in [0, 2^31-1], got -1");
  EXPECT_ERROR(causal_mask(int64_t{1} << 31), "causal_mask: nodes must be in [0, 2^31-1], got 2147483648");
  const MaskPtr mask = none_mask(5);
  EXPECT_ERROR(
      with_global_tokens(mask, kHuge),
      "with_global_tokens: tokens must leave at most 2^31-1 nodes in all, got 9223372036854775807 in addition to 5");
  EXPECT_ERROR(with_global_tokens(mask, (int64_t{1} << 31) - 5), "got 2147483643 in addition to 5 nodes");
  EXPECT_EQ(with_global_tokens(mask, (int64_t{1} << 31) - 6)->size(), (int64_t{1} << 31) - 1);
  EXPECT_ERROR(with_global_tokens(mask, -1), "with_global_tokens: tokens must be >= 0, got -1");
}

TEST(MaskArguments, TooManyTokensAreRefusedBeforeMemoryIsTaken) {
  const MaskPtr mask = with_global_tokens(neighbours_mask(Graph::path(1000)), 100000);
  EXPECT_ERROR(mask->sparse(),
               "with_global_tokens: the entries of the tokens' rows must be at most 8589934592, got "
               "100000 x 101000");
  // The planner's estimate of the work does not overflow either.
  const MaskPtr wide = with_global_tokens(causal_mask(3), int64_t{1} << 30);
  EXPECT_GT(*wide->masked_product_work(1 << 10, 1 << 10), 1e21);
}

TEST(MaskArguments, DenseAndSparseMasksRefuseNan) {
  at::Tensor matrix = at::ones({2, 3, 3});
  matrix[1][0][2] = NAN;
  EXPECT_ERROR(dense_mask(matrix), "dense_mask: matrix must be below infinity, got nan at [1, 0, 2]");
  EXPECT_ERROR(dense_mask(at::full({2, 2}, INFINITY)), "dense_mask: matrix must be below infinity, got inf at [0, 0]");
  EXPECT_ERROR(dense_mask(at::ones({0, 2, 2})), "dense_mask: matrix must have at least one head, got Float[0, 2, 2]");
  const Graph graph = Graph::path(3);
  EXPECT_ERROR(sparse_mask({graph.pattern(), at::full({4}, NAN)}),
               "sparse_mask: values must be below infinity, got nan at 0");
  EXPECT_ERROR(sparse_mask({graph.pattern(), at::ones({0, 4})}), "sparse_mask: values must have at least one head");
}

TEST(MaskArguments, MinusInfinityExcludesAPairOfAnAdditiveMask) {
  at::Tensor bias = at::zeros({3, 3}, at::kDouble);
  bias[0][2] = -INFINITY;
  const at::Tensor x = at::rand({3, 4}, at::kDouble);
  const at::Tensor out = softmax_attention(x, x, x, dense_mask(bias), {.mask = SoftmaxMask::additive});
  const at::Tensor weights = at::softmax(at::matmul(x, x.t()) / 2 + bias, -1);
  EXPECT_TRUE(testing::close(out, at::matmul(weights, x), 1e-12));
}

TEST(MaskArguments, WalkFunctionsAreFiniteAndNotEmpty) {
  const Graph graph = Graph::path(4);
  const WalkTable walks = sample_walks(graph), other = sample_walks(graph, {.seed = 1});
  const at::Tensor good = at::ones({3}), bad = at::tensor({1.F, NAN}), none = at::empty({0});
  const auto expect = [&](const char* text, const at::Tensor& f) {
    EXPECT_ERROR(grf_mask(walks, f), std::string("grf_mask: f ") + text);
    EXPECT_ERROR(grf_mask(walks, other, f), std::string("grf_mask: f_query ") + text);
    EXPECT_ERROR(grf_mask(walks, other, good, f), std::string("grf_mask: f_key ") + text);
    EXPECT_ERROR(asymmetric_grf_mask(walks, f), std::string("asymmetric_grf_mask: f ") + text);
    EXPECT_ERROR(ad_hoc_mask(walks, f), std::string("ad_hoc_mask: f ") + text);
    EXPECT_ERROR(hybrid_grf_mask(walks, graph, f), std::string("hybrid_grf_mask: f ") + text);
    EXPECT_ERROR(stitched_grf_mask({walks, other}, f), std::string("stitched_grf_mask: f ") + text);
    EXPECT_ERROR(walking_mask(graph, f), std::string("walking_mask: f ") + text);
  };
  expect("must be finite, got nan at 1", bad);
  expect("must be finite, got nan at 1", bad.detach().clone().requires_grad_());
  expect("must have at least one coefficient, got Float[0]", none);
}

TEST(MaskArguments, RandomFactorsAreBounded) {
  const at::Tensor ones = at::ones({2});
  EXPECT_ERROR(projected_mask(neighbours_mask(Graph::path(3)), {.width = kHuge}),
               "projected_mask: the signs, factor columns x width, must be at most 1099511627776, got 3 x ");
  EXPECT_ERROR(stochastic_positional_mask(kHuge, ones, ones), "nodes must be in [0, 2^31-1], got 9223372036854775807");
  EXPECT_ERROR(stochastic_positional_mask(3, ones, ones, {}, {.realisations = kHuge}),
               "the random numbers, waves x realisations, must be at most 1099511627776, got 4 x ");
  EXPECT_ERROR(random_fourier_factors(at::ones({3, 2}), {.features = kHuge}),
               "random_fourier_factors: the factors, N x 2 x features, must be at most 1099511627776");
  EXPECT_ERROR(random_fourier_factors(at::ones({3, 2}), {.radius = NAN}), "radius must be finite and > 0, got nan");
  EXPECT_ERROR(shortest_paths(Graph::path(3), {.max_entries = -1}), "shortest_paths: max_entries must be >= 0, got -1");
  EXPECT_ERROR(degree_embedding(Graph::path(3), at::full({2, 2}, NAN)),
               "degree_embedding: table must be finite, got nan at [0, 0]");
}

TEST(MaskArguments, AWrongFunctionOfDistancesIsRefusedBeforeItsTableIsMade) {
  // The table would take 32 GiB.
  EXPECT_ERROR(toeplitz_distance_mask({1 << 15, 1 << 15}, at::ones({3})),
               "toeplitz_distance_mask: f must be Float or Double of shape [65535]");
}

}  // namespace
}  // namespace topomask
