#include "topomask/masks.h"

#include <ATen/Parallel.h>

#include "masks/grf/grf_testing.h"
#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/global_tokens.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

using testing::close;
using testing::dense_features;
using testing::digraph;
using testing::expect_mask_is;
using testing::expect_matrix_is;
using testing::hop_matrices;
using testing::normal;
using testing::powers;

at::Tensor function(at::IntArrayRef shape) {
  return (normal(shape, 7).abs() + 0.1).requires_grad_();
}

std::vector<Graph> graphs() {
  std::vector<Graph> result{Graph::path(1), Graph::path(7), Graph::grid({4, 5}), Graph::erdos_renyi(23, 0.1, 3)};
  for (Graph& graph : result) graph = graph.to(at::kDouble).normalised(0.9);
  result.push_back(digraph());
  return result;
}

WalkTable walk(const Graph& graph, uint64_t seed, WalkOptions options = {}) {
  options.seed = seed;
  options.max_hops = 5;
  return sample_walks(graph, options);
}

/// A function of one head with or without its dimension is one matrix.
at::Tensor without_single_head(const at::Tensor& dense) {
  return dense.dim() == 3 && dense.size(0) == 1 ? dense[0] : dense;
}

TEST(GrfMask, IsTheProductOfItsFeatures) {
  for (const Graph& graph : graphs()) {
    const WalkTable walks = walk(graph, 1);
    for (const at::Tensor& f : {function({1}), function({6}), function({2, 4}), function({1, 3})}) {
      const at::Tensor phi = without_single_head(dense_features(walks, f));
      expect_matrix_is(grf_mask(walks, f), at::matmul(phi, phi.mT()));
    }
    const at::Tensor f = function({2, 4}), phi = dense_features(walks, f);
    expect_mask_is(grf_mask(walks, f), at::matmul(phi, phi.mT()));
  }
}

TEST(GrfMask, IsTheProductOfTwoWalkSets) {
  for (const Graph& graph : graphs()) {
    const WalkTable queries = walk(graph, 1), keys = walk(graph.reversed(), 2, {.walkers = 3});
    const at::Tensor f = function({2, 4});
    expect_mask_is(grf_mask(queries, keys, f), at::matmul(dense_features(queries, f), dense_features(keys, f).mT()));
    const at::Tensor one = function({6});
    EXPECT_EQ(grf_mask(queries, keys, f, f)->parameters().size(), 1u);
    expect_matrix_is(grf_mask(queries, keys, f, one),
                     at::matmul(dense_features(queries, f), dense_features(keys, one).mT()));
    expect_matrix_is(grf_mask(queries, keys, one, f),
                     at::matmul(dense_features(queries, one), dense_features(keys, f).mT()));
  }
}

TEST(AsymmetricGrfMask, IsItsFeatures) {
  for (const Graph& graph : graphs()) {
    const WalkTable walks = walk(graph, 3, {.walkers = 2, .coupling = Coupling::antithetic});
    const at::Tensor f = function({6});
    expect_matrix_is(asymmetric_grf_mask(walks, f), dense_features(walks, f));
  }
  const WalkTable walks = walk(digraph(), 3);
  const at::Tensor f = function({3, 4});
  expect_mask_is(asymmetric_grf_mask(walks, f), dense_features(walks, f));
}

TEST(AdHocMask, CountsVisits) {
  for (const Graph& graph : graphs()) {
    const WalkTable walks = walk(graph, 4);
    const at::Tensor f = function({2, 4}), phi = dense_features(walks, f, true);
    expect_matrix_is(ad_hoc_mask(walks, f), at::matmul(phi, phi.mT()));
  }
  const WalkTable walks = walk(digraph(), 4);
  const at::Tensor f = function({5}), phi = dense_features(walks, f, true);
  expect_mask_is(ad_hoc_mask(walks, f), at::matmul(phi, phi.mT()));
}

/// Σ over ordered pairs of different groups of ⟨S_k, S_l⟩ / their number, from one table per group.
at::Tensor debiased_reference(const Graph& graph, const WalkOptions& options, int64_t group, const at::Tensor& f) {
  at::Tensor sum = at::zeros({1}, at::kDouble), squares = at::zeros({1}, at::kDouble);
  double pairs = static_cast<double>(options.walkers * options.walkers);
  for (int64_t first = 0; first < options.walkers; first += group) {
    WalkOptions own = options;
    own.first_walker = first;
    own.walkers = std::min(group, options.walkers - first);
    if (own.walkers == 1 && group == 2) own.coupling = Coupling::independent;
    const at::Tensor s = dense_features(sample_walks(graph, own), f) * static_cast<double>(own.walkers);
    sum = sum + s;
    squares = squares + s.square().sum(-1);
    pairs -= static_cast<double>(own.walkers * own.walkers);
  }
  const auto n = static_cast<double>(options.walkers);
  const at::Tensor phi = sum / n, shared = at::matmul(phi, phi.mT());
  return shared + at::diag_embed((sum.square().sum(-1) - squares) / pairs - shared.diagonal(0, -2, -1));
}

TEST(DebiasedGrfMask, PairsWalkersOfDifferentGroupsOnTheDiagonal) {
  struct Case {
    WalkOptions options;
    int64_t group;
  };
  const std::vector<Case> cases{
      {{.walkers = 4}, 1},
      {{.walkers = 3, .fixed_hops = 4}, 1},
      {{.walkers = 5, .coupling = Coupling::antithetic}, 2},
      {{.walkers = 6, .coupling = Coupling::repelling, .ensemble = 3}, 3},
      {{.walkers = 4, .coupling = Coupling::antithetic_repelling, .ensemble = 2}, 2},
  };
  for (const Graph& graph : graphs()) {
    for (Case c : cases) {
      c.options.max_hops = 5;
      c.options.seed = 11;
      c.options.group_products = true;
      const WalkTable walks = sample_walks(graph, c.options);
      for (const at::Tensor& f : {function({5}), function({2, 3})}) {
        expect_matrix_is(grf_mask(walks, f, {.diagonal = Diagonal::debiased}),
                         debiased_reference(graph, c.options, c.group, f), 1e-9);
      }
    }
  }
  const WalkOptions options{.max_hops = 5, .group_products = true, .seed = 12};
  for (const at::Tensor& f : {function({5}), function({2, 3})}) {
    expect_mask_is(grf_mask(sample_walks(digraph(), options), f, {.diagonal = Diagonal::debiased}),
                   debiased_reference(digraph(), options, 1, f), 1e-9);
  }
}

/// The products of groups, which the diagonal takes, are those of the sampled loads.
TEST(DebiasedGrfMask, RefusesLoadsThatChangeAfterIt) {
  const WalkTable walks = sample_walks(digraph(), {.max_hops = 5, .group_products = true, .seed = 12});
  const at::Tensor f = function({5});
  const MaskPtr mask = grf_mask(walks, f, {.diagonal = Diagonal::debiased});
  EXPECT_EQ(mask->dense().size(0), digraph().num_nodes());
  walks.loads().mul_(2);
  EXPECT_ERROR(mask->dense(),
               "grf_mask: loads of walks with a debiased diagonal must be those that the mask was made with");
}

TEST(HybridGrfMask, HasAnExactHeadAndASampledTail) {
  for (const Graph& graph : graphs()) {
    for (int64_t exact : {0, 1, 3}) {
      const WalkTable walks = walk(graph, 5, {.exact_hops = exact, .group_products = true});
      const at::Tensor matrices =
          at::cat({powers(graph, exact), hop_matrices(walks).narrow(0, exact + 1, walks.max_hops() - exact)});
      const at::Tensor f = function({2, 6}), phi = testing::combine(f, matrices);
      expect_matrix_is(hybrid_grf_mask(walks, graph, f), at::matmul(phi, phi.mT()));
      expect_matrix_is(asymmetric_grf_mask(with_exact_head(walks, graph), f), phi);
    }
  }
}

TEST(HybridGrfMask, DebiasesWithHeadPlusTailOfEachGroup) {
  for (const Graph& graph : graphs()) {
    for (const Coupling coupling : {Coupling::independent, Coupling::antithetic}) {
      const int64_t exact = 2, group = coupling == Coupling::independent ? 1 : 2;
      WalkOptions options{
          .walkers = 4, .max_hops = 5, .exact_hops = exact, .coupling = coupling, .group_products = true, .seed = 6};
      const WalkTable walks = sample_walks(graph, options);
      const at::Tensor f = function({5}), head = testing::combine(f.narrow(0, 0, 3), powers(graph, exact));
      at::Tensor sum = at::zeros({1}, at::kDouble), squares = sum;
      for (options.first_walker = 0; options.first_walker < 4; options.first_walker += group) {
        options.walkers = group;
        const at::Tensor r = hop_matrices(sample_walks(graph, options)).narrow(0, 3, 2);
        const at::Tensor s = static_cast<double>(group) * (head + testing::combine(f.narrow(0, 3, 2), r));
        sum = sum + s;
        squares = squares + s.square().sum(-1);
      }
      const at::Tensor shared = at::matmul(sum, sum.mT()) / 16;
      const double pairs = 16 - 4 * static_cast<double>(group);
      expect_matrix_is(hybrid_grf_mask(walks, graph, f, {.diagonal = Diagonal::debiased}),
                       shared + at::diag_embed((sum.square().sum(-1) - squares) / pairs - shared.diagonal()), 1e-9);
    }
  }
}

TEST(StitchedGrfMask, IsTheProductOfItsFactors) {
  for (const Graph& graph : graphs()) {
    for (size_t tables : {2, 4, 6}) {
      std::vector<WalkTable> walks;
      for (size_t i = 0; i < tables; ++i) walks.push_back(walk(graph, 20 + i, {.walkers = 2}));
      for (const at::Tensor& f : {function({4}), function({2, 3})}) {
        at::Tensor reference = at::eye(graph.num_nodes(), at::kDouble);
        for (size_t i = 0; i < tables; i += 2) {
          reference =
              at::matmul(at::matmul(reference, dense_features(walks[i], f)), dense_features(walks[i + 1], f).mT());
        }
        expect_matrix_is(stitched_grf_mask(walks, f), reference);
        const MaskPtr implicit = stitched_grf_mask(walks, f, {.max_sparse_entries = 0});
        EXPECT_EQ(implicit->sparse().has_value(), tables == 2) << "two tables are a plain product";
        expect_matrix_is(implicit, reference);
        if (tables == 4 && graph.directed()) {
          expect_mask_is(stitched_grf_mask(walks, f), reference);
          expect_mask_is(implicit, reference);
        }
      }
    }
  }
}

TEST(ProjectedMask, IsAProductOfProjectedFactors) {
  const Graph graph = Graph::grid({4, 5}).to(at::kDouble).normalised(0.9);
  const WalkTable walks = walk(graph, 1, {.group_products = true});
  for (const at::Tensor& f : {function({4}), function({2, 4})}) {
    for (const MaskPtr& mask :
         {grf_mask(walks, f), grf_mask(walks, f, {.diagonal = Diagonal::debiased}), asymmetric_grf_mask(walks, f)}) {
      const MaskPtr projected = projected_mask(mask, {.width = 7, .seed = 3});
      const auto [left, right] = *mask->factors();
      // P from the projection of the identity: the right factor of the asymmetric mask.
      const int64_t columns = left.sparse->pattern->cols();
      const SparseMatrix eye{std::make_shared<SparsePattern>(columns, columns, at::arange(columns + 1, at::kLong),
                                                             at::arange(columns, at::kInt)),
                             at::ones({columns}, at::kDouble)};
      const at::Tensor p = projected_mask(sparse_mask(eye), {.width = 7, .seed = 3})->factors()->left.dense.detach();
      EXPECT_TRUE(close(at::matmul(p, p.mT()).diagonal(), at::ones({columns}, at::kDouble), 1e-12));
      const at::Tensor l = left.sparse->dense(), r = right.sparse->dense();
      expect_mask_is(projected, at::matmul(at::matmul(l, p), at::matmul(r, p).mT()), 1e-9);
    }
  }
}

TEST(ProjectedMask, IsUnbiasedAndSeeded) {
  const WalkTable walks = walk(Graph::grid({4, 4}).to(at::kDouble).normalised(0.9), 1);
  const at::Tensor f = function({4}).detach();
  const MaskPtr mask = grf_mask(walks, f);
  const auto draw = [&](uint64_t seed) { return projected_mask(mask, {.width = 8, .seed = seed})->dense(); };
  EXPECT_TRUE(at::equal(draw(1), draw(1)));
  EXPECT_FALSE(at::equal(draw(1), draw(2)));
  std::vector<at::Tensor> errors;
  for (uint64_t seed = 0; seed < 400; ++seed) errors.push_back((draw(seed) - mask->dense()).sum());
  const at::Tensor all = at::stack(errors);
  EXPECT_LT(std::abs(all.mean().item<double>()), 4 * all.std().item<double>() / 20);
}

TEST(GrfMask, CarriesGlobalTokens) {
  const WalkTable walks = walk(Graph::grid({3, 5}).to(at::kDouble).normalised(0.9), 1, {.group_products = true});
  const at::Tensor f = function({2, 4}), phi = dense_features(walks, f);
  expect_mask_is(with_global_tokens(grf_mask(walks, f), 2),
                 at::constant_pad_nd(at::matmul(phi, phi.mT()), {2, 0, 2, 0}, 1));
}

TEST(GrfMask, WorksInFloat) {
  const WalkTable walks = walk(Graph::grid({5, 5}).to(at::kDouble).normalised(0.9), 1, {.group_products = true});
  const WalkTable other = walk(Graph::grid({5, 5}).to(at::kDouble).normalised(0.9), 2);
  const at::Tensor f = function({2, 4});
  for (const MaskPtr& mask :
       {grf_mask(walks, f), grf_mask(walks, f, {.diagonal = Diagonal::debiased}), grf_mask(walks, other, f),
        asymmetric_grf_mask(walks, f), ad_hoc_mask(walks, f), projected_mask(grf_mask(walks, f)),
        stitched_grf_mask(
            {walks, other, walk(Graph::path(25).to(at::kDouble), 3), walk(Graph::path(25).to(at::kDouble), 4)}, f)}) {
    const MaskPtr narrow = mask->to(at::kFloat);
    EXPECT_EQ(narrow->dtype(), at::kFloat);
    EXPECT_EQ(mask->to(at::kDouble), mask);
    EXPECT_TRUE(close(narrow->dense(), mask->dense(), 1e-5)) << mask->name();
    // Gradients reach the parameter the user holds.
    const at::Tensor g = normal(mask->dense().sizes(), 8);
    EXPECT_TRUE(close(testing::gradients(narrow->dense(), g.to(at::kFloat), {f})[0],
                      testing::gradients(mask->dense(), g, {f})[0], 1e-4));
  }
}

TEST(GrfMask, OfNoNodesIsEmpty) {
  const WalkTable walks = sample_walks(Graph::path(0), {.max_hops = 3, .group_products = true});
  const WalkTable other = sample_walks(Graph::path(0), {.max_hops = 3, .seed = 2});
  const at::Tensor f = at::ones({2}), x = at::empty({0, 4});
  for (const MaskPtr& mask : {grf_mask(walks, f), grf_mask(walks, f, {.diagonal = Diagonal::debiased}),
                              grf_mask(walks, other, f), asymmetric_grf_mask(walks, f), ad_hoc_mask(walks, f),
                              hybrid_grf_mask(walks, Graph::path(0), f), projected_mask(grf_mask(walks, f))}) {
    EXPECT_EQ(mask->matmul(x).sizes(), x.sizes()) << mask->name();
    EXPECT_EQ(attention(x, x, x, mask).sizes(), x.sizes()) << mask->name();
    EXPECT_EQ(mask->dense().numel(), 0) << mask->name();
  }
}

TEST(GrfMask, KeepsValuesWhileItsFunctionStays) {
  const WalkTable walks = walk(Graph::grid({4, 4}), 1, {.group_products = true});
  at::Tensor f = at::ones({3});
  for (const MaskPtr& mask : {grf_mask(walks, f), grf_mask(walks, f, {.diagonal = Diagonal::debiased}),
                              asymmetric_grf_mask(walks, f), ad_hoc_mask(walks, f)}) {
    const at::Tensor before = mask->sparse()->values;
    EXPECT_TRUE(mask->sparse()->values.is_same(before)) << mask->name();
    const at::Tensor x = at::rand({16, 2}), y = mask->matmul(x);
    f.mul_(2);
    const double factor = mask->name() == "grf, asymmetric" ? 2 : 4;
    EXPECT_TRUE(close(mask->sparse()->values, before * factor, 1e-6)) << mask->name();
    EXPECT_TRUE(close(mask->matmul(x), y * factor, 1e-6)) << mask->name();
    f.requires_grad_();
    EXPECT_TRUE(mask->sparse()->values.requires_grad()) << mask->name();
    f.detach_().requires_grad_(false);
  }
}

TEST(GrfMask, TrainsAfterInference) {
  // What a mask makes on first use and keeps must serve a backward pass later.
  const Graph graph = Graph::grid({4, 4});
  const at::Tensor f = at::ones({3}), x = at::rand({16, 4});
  const WalkTable walks = walk(graph, 1, {.group_products = true});
  for (const MaskPtr& mask :
       {grf_mask(walks, f, {.diagonal = Diagonal::debiased}), asymmetric_grf_mask(walk(graph, 2), f),
        stitched_grf_mask({walk(graph, 3), walk(graph, 4), walk(graph, 5), walk(graph, 6)}, f)}) {
    for (const Route route : {Route::sparse, Route::features, Route::operator_}) {
      {
        const c10::InferenceMode inference;
        attention(x, x, x, mask, {.route = route});
      }
      const at::Tensor q = x.clone().requires_grad_();
      EXPECT_NO_THROW(attention(q, x, x, mask, {.route = route}).sum().backward()) << mask->name();
    }
  }
}

TEST(GrfMask, SharesThePatternOfOneTable) {
  const WalkTable walks = walk(Graph::grid({4, 4}), 1), copy = walks, keys = walk(Graph::grid({4, 4}), 2);
  const at::Tensor f = at::ones({3});
  const PatternPtr pattern = grf_mask(walks, f)->sparse()->pattern;
  EXPECT_EQ(grf_mask(copy, f * 2)->sparse()->pattern, pattern) << "made once, kept with the table";
  EXPECT_EQ(ad_hoc_mask(walks, f)->sparse()->pattern, pattern);
  EXPECT_EQ(grf_mask(walks, f)->to(at::kDouble)->sparse()->pattern, pattern);
  EXPECT_EQ(grf_mask(walks, keys, f)->sparse()->pattern, grf_mask(walks, keys, f)->sparse()->pattern);
}

TEST(GrfMask, EstimatesItsEntries) {
  const Graph graph = Graph::grid({40, 40});
  const WalkTable walks = sample_walks(graph, {.walkers = 8, .halting_probability = 0.3});
  const MaskPtr mask = grf_mask(walks, at::ones({4}));
  const double estimate = *mask->counts().sparse_entries;
  const auto exact = static_cast<double>(mask->sparse()->pattern->entries());
  EXPECT_NEAR(estimate / exact, 1, 0.1);
  EXPECT_EQ(*mask->counts().sparse_entries, exact) << "once built, it is known";
  EXPECT_EQ(*mask->counts().factor_entries, 2.0 * static_cast<double>(walks.pattern()->entries()));
  EXPECT_EQ(mask->counts().values_work, 0) << "kept";
  EXPECT_GT(grf_mask(walks, at::ones({4}).requires_grad_())->counts().values_work, exact);
}

TEST(GrfMask, IsTheSameForAnyNumberOfThreads) {
  const Graph graph = Graph::erdos_renyi(701, 0.01, 2).normalised(0.9);
  const WalkTable walks = sample_walks(graph, {.walkers = 10, .group_products = true});
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> values, gradients;
  for (int t : {1, 2, 7}) {
    at::set_num_threads(t);
    const at::Tensor f = at::ones({5}).requires_grad_();
    const auto fresh = sample_walks(graph, {.walkers = 10, .group_products = true});
    values.push_back(grf_mask(fresh, f, {.diagonal = Diagonal::debiased})->sparse()->values);
    gradients.push_back(testing::gradients(values.back(), at::arange(values.back().size(0)).to(at::kFloat), {f})[0]);
  }
  at::set_num_threads(threads);
  for (size_t i : {1, 2}) {
    EXPECT_TRUE(at::equal(values[0], values[i]));
    EXPECT_TRUE(at::equal(gradients[0], gradients[i]));
  }
}

}  // namespace
}  // namespace topomask
