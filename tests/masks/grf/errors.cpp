#include "masks/grf/grf_testing.h"
#include "topomask/grf.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

WalkTable walk(WalkOptions options = {}, const Graph& graph = Graph::grid({3, 3})) {
  options.max_hops = 4;
  return sample_walks(graph, options);
}

TEST(GrfErrors, AFunctionMustFitTheWalks) {
  const WalkTable walks = walk(), other = walk({.seed = 1});
  const Graph grid = Graph::grid({3, 3});
  EXPECT_ERROR(grf_mask(walks, at::ones({2}, at::kLong)),
               "grf_mask: f must be Float or Double, [K] or [H, K] on cpu, got Long[2]");
  EXPECT_ERROR(grf_mask(walks, at::Tensor()),
               "grf_mask: f must be Float or Double, [K] or [H, K] on cpu, got undefined");
  EXPECT_ERROR(grf_mask(walks, at::ones({0, 2})), "grf_mask: f must have at least one head, got Float[0, 2]");
  EXPECT_ERROR(grf_mask(walks, at::ones({2}, at::kDouble)),
               "grf_mask: f must be Float as the loads of the walks are, got Double[2]");
  EXPECT_ERROR(grf_mask(walks, at::ones({6})),
               "grf_mask: f must have at most max_hops + 1 = 5 coefficients, got Float[6]");
  EXPECT_ERROR(ad_hoc_mask(walks, at::ones({6})), "ad_hoc_mask: f must have at most");
  EXPECT_ERROR(asymmetric_grf_mask(walks, at::ones({6})), "asymmetric_grf_mask: f must have at most");
  EXPECT_ERROR(hybrid_grf_mask(walks, grid, at::ones({6})), "hybrid_grf_mask: f must have at most");
  EXPECT_ERROR(grf_mask(walks, other, at::ones({6})), "grf_mask: f_query must have at most");
  EXPECT_ERROR(grf_mask(walks, other, at::ones({2}), at::ones({6})), "grf_mask: f_key must have at most");
  EXPECT_ERROR(grf_mask(walks, other, at::ones({2, 2}), at::ones({3, 2})),
               "grf_mask: f_key must have 2 heads as f_query has, or one, got Float[3, 2]");
  EXPECT_ERROR(stitched_grf_mask({walks, other}, at::ones({6})), "stitched_grf_mask: f must have at most");
}

TEST(GrfErrors, ADebiasedDiagonalWantsGroups) {
  const GrfOptions debiased{.diagonal = Diagonal::debiased};
  const at::Tensor f = at::ones({2});
  EXPECT_ERROR(grf_mask(walk(), f, debiased),
               "grf_mask: the debiased diagonal must have walks sampled with group_products, got walks without");
  EXPECT_ERROR(grf_mask(walk({.walkers = 1, .group_products = true}), f, debiased),
               "must have at least two independent groups of walkers, got 1");
  EXPECT_ERROR(grf_mask(walk({.coupling = Coupling::repelling, .group_products = true}), f, debiased),
               "use more walkers or smaller ensembles, or two independent tables");
  EXPECT_ERROR(grf_mask(walk({.walkers = 2, .coupling = Coupling::antithetic, .group_products = true}), f, debiased),
               "must have at least two independent groups of walkers, got 1");
}

TEST(GrfErrors, TwoWalkSetsMustBeIndependent) {
  const at::Tensor f = at::ones({2});
  const WalkTable walks = walk();
  EXPECT_ERROR(grf_mask(walks, walks, f), "grf_mask: key_walks must be independent of query_walks: another seed");
  EXPECT_ERROR(grf_mask(walks, walk({.first_walker = 3}), f), "got seed 0 with overlapping walkers for both");
  EXPECT_NO_THROW(grf_mask(walks, walk({.first_walker = 4}), f));
  EXPECT_NO_THROW(grf_mask(walks, walk({.seed = 1}), f));
  EXPECT_ERROR(grf_mask(walks, walk({.seed = 1}, Graph::path(4)), f),
               "grf_mask: key_walks must have 9 nodes as query_walks has, got 4");
  EXPECT_ERROR(
      stitched_grf_mask({walks, walk({.seed = 1}), walks, walk({.seed = 2})}, f),
      "stitched_grf_mask: walks must be independent tables: another seed, or walkers from another first_walker "
      "on; got the same in tables 0 and 2");
  EXPECT_ERROR(stitched_grf_mask({walks}, f), "walks must be an even number of tables, two for each factor, got 1");
  EXPECT_ERROR(stitched_grf_mask({walks, walk({.seed = 1}, Graph::path(4))}, f),
               "stitched_grf_mask: walks must all have 9 nodes, got 4 in table 1");
  EXPECT_ERROR(stitched_grf_mask({walks, walk({.seed = 1})}, f, {.max_sparse_entries = -1}),
               "stitched_grf_mask: max_sparse_entries must be >= 0, got -1");
}

TEST(GrfErrors, AnExactHeadWantsTheGraphThatWasWalked) {
  const at::Tensor f = at::ones({2});
  EXPECT_ERROR(with_exact_head(walk(), Graph::path(4)),
               "with_exact_head: graph must have 9 nodes as the walks have, got 4");
  EXPECT_ERROR(with_exact_head(walk(), Graph::grid({3, 3}).to(at::kDouble)),
               "with_exact_head: graph must have weights of Float as the walks' loads are, got Double");
  EXPECT_ERROR(with_exact_head(walk({.walkers = 3, .coupling = Coupling::antithetic, .group_products = true}),
                               Graph::grid({3, 3})),
               "with_exact_head: walks with group_products must come in groups of one size, got 3 antithetic walkers");
}

TEST(GrfErrors, AProjectionWantsSparseFactors) {
  EXPECT_ERROR(projected_mask(nullptr), "projected_mask: mask must be given, got none");
  EXPECT_ERROR(projected_mask(none_mask(3)), "projected_mask: mask must have sparse factors, got mask none");
  EXPECT_ERROR(projected_mask(grf_mask(walk(), at::ones({2})), {.width = 0}),
               "projected_mask: width must be >= 1, got 0");
}

}  // namespace
}  // namespace topomask
