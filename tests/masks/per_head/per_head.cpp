#include "topomask/per_head.h"

#include <ATen/ATen.h>

#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/encodings.h"
#include "topomask/masks.h"
#include "topomask/power_series.h"
#include "topomask/toeplitz.h"

namespace topomask {
namespace {

using testing::expect_mask_is;
using testing::normal;

at::Tensor learnt(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble).requires_grad_();
}

TEST(PerHeadMask, IsEachMaskInItsHead) {
  const Graph graph = Graph::grid({3, 4}).normalised().to(at::kDouble);
  const at::Tensor w = graph.matrix().dense(), eye = at::eye(12, at::kDouble);
  const at::Tensor near = learnt({1.0, 0.5}), far = learnt({0.7, -0.2, 0.3});
  const MaskPtr both = per_head_mask({power_series_mask(graph, near), power_series_mask(graph, far)});
  ASSERT_TRUE(both->sparse());
  expect_mask_is(both, at::stack({near[0] * eye + near[1] * w, far[0] * eye + far[1] * w + far[2] * at::matmul(w, w)}));
}

TEST(PerHeadMask, TakesHeadsOfDifferentFamiliesAndGraphs) {
  const Graph path = Graph::path(7).to(at::kDouble), cycle = Graph::cycle(7).normalised().to(at::kDouble);
  const at::Tensor alpha = learnt({0.4, 0.9}), matrix = normal({7, 7}, 3).requires_grad_();
  const MaskPtr mask = per_head_mask(
      {none_mask(7), power_series_mask(cycle, alpha), dense_mask(matrix), neighbours_mask(path), causal_mask(7)});
  EXPECT_EQ(mask->heads(), 5);
  EXPECT_EQ(mask->dtype(), at::kDouble);  // of those that have one
  EXPECT_FALSE(mask->sparse());           // a mask without few nonzeros is among them
  const at::Tensor eye = at::eye(7, at::kDouble);
  const at::Tensor reference =
      at::stack({at::ones({7, 7}, at::kDouble), alpha[0] * eye + alpha[1] * cycle.matrix().dense(), matrix,
                 path.matrix().dense() + eye, at::ones({7, 7}, at::kDouble).tril()});
  expect_mask_is(mask, reference);
}

TEST(PerHeadMask, OffersTheTilesOfMasksOfOneKind) {
  const auto positive = [](at::IntArrayRef shape, uint64_t seed) {
    return (normal(shape, seed).abs() + 0.1).requires_grad_();
  };
  const auto expect_tiles = [](const std::vector<MaskPtr>& masks, TileKind kind) {
    const MaskPtr mask = per_head_mask(masks);
    ASSERT_TRUE(mask->tiles());
    EXPECT_EQ(mask->tiles()->kind, kind);
    EXPECT_EQ(mask->counts().tiles, kind);
    std::vector<at::Tensor> matrices;
    for (const MaskPtr& each : masks) matrices.push_back(each->dense().to(at::kDouble));
    expect_mask_is(mask, at::stack(matrices));
  };
  const at::Tensor a = positive({5, 7}, 1), b = positive({5, 7}, 2);
  expect_tiles({toeplitz_mask({3, 4}, a), toeplitz_mask({3, 4}, b)}, TileKind::offsets);
  expect_tiles({dense_mask(positive({9, 9}, 3)), dense_mask(positive({9, 9}, 4))}, TileKind::matrix);
  const auto factors = [&](uint64_t seed) {
    return free_features_mask(positive({8, 2}, seed), positive({8, 2}, seed + 1));
  };
  expect_tiles({factors(5), factors(7), factors(9)}, TileKind::factors);
  const at::Tensor distances = at::randint(-1, 4, {6, 6}, at::kInt);
  expect_tiles({shortest_path_mask(distances, positive({3}, 11)), shortest_path_mask(distances, positive({3}, 12))},
               TileKind::places);
  EXPECT_EQ(per_head_mask({causal_mask(5), causal_mask(5)})->tiles()->kind, TileKind::causal);
}

TEST(PerHeadMask, OffersNoTilesOfMasksThatDiffer) {
  const at::Tensor offsets = normal({9}, 1), square = normal({5, 5}, 2), wide = normal({5, 3}, 3);
  const auto tiles = [](const MaskPtr& a, const MaskPtr& b) { return per_head_mask({a, b})->tiles().has_value(); };
  EXPECT_FALSE(tiles(toeplitz_mask({5}, offsets), dense_mask(square)));
  EXPECT_FALSE(tiles(free_features_mask(wide, wide), free_features_mask(square, square)));
  const at::Tensor near = at::zeros({5, 5}, at::kInt), far = at::ones({5, 5}, at::kInt), f = at::rand({3}, at::kDouble);
  EXPECT_FALSE(tiles(shortest_path_mask(near, f), shortest_path_mask(far, f)));
  EXPECT_FALSE(tiles(causal_mask(5), neighbours_mask(Graph::path(5).to(at::kDouble))));
}

TEST(PerHeadMask, OfOneMaskIsThatMask) {
  const MaskPtr mask = causal_mask(5);
  EXPECT_EQ(per_head_mask({mask}), mask);
}

TEST(PerHeadMask, OfNoNodesIsEmpty) {
  const MaskPtr mask = per_head_mask({none_mask(0), none_mask(0)});
  EXPECT_EQ(mask->matmul(at::zeros({2, 0, 3})).sizes(), (at::IntArrayRef{2, 0, 3}));
}

TEST(PerHeadMask, SharesTheUnionOfPatternsWithItsCopies) {
  const Graph graph = Graph::grid({3, 4});
  const MaskPtr mask = per_head_mask({power_series_mask(graph, at::tensor({1.0F, 0.5F}).requires_grad_()),
                                      power_series_mask(graph, at::tensor({1.0F, 0.5F, 0.2F}).requires_grad_())});
  const MaskPtr other = mask->rebuild(mask->parameters());
  EXPECT_EQ(mask->sparse()->pattern, other->sparse()->pattern);
}

TEST(PerHeadMask, RefusesWhatDoesNotFit) {
  const Graph graph = Graph::path(5);
  const MaskPtr single = power_series_mask(graph, at::tensor({1.0F, 0.5F}));
  EXPECT_ERROR(per_head_mask({}), "per_head_mask: masks must be at least one, got none");
  EXPECT_ERROR(per_head_mask({single, nullptr}), "per_head_mask: masks[1] must be a mask, got null");
  EXPECT_ERROR(per_head_mask({single, power_series_mask(graph, at::ones({2, 2}))}),
               "per_head_mask: masks[1] must have one head, got 2");
  EXPECT_ERROR(per_head_mask({single, none_mask(6)}),
               "per_head_mask: masks must have one size, got 5 in masks[0] and 6 in masks[1]");
  EXPECT_ERROR(per_head_mask({single, single->to(at::kDouble)}),
               "per_head_mask: masks must have one dtype, got Float and Double in masks[1]");
}

TEST(PerHead, TakesMatricesWithAHeadDimensionAndCountsItsFactors) {
  const MaskPtr one = dense_mask(at::ones({1, 4, 4}, at::kDouble)), other = dense_mask(at::ones({4, 4}, at::kDouble));
  EXPECT_EQ(per_head_mask({one, other})->dense().sizes(), at::IntArrayRef({2, 4, 4}));
  const MaskPtr neighbours = neighbours_mask(Graph::path(4));
  const MaskPtr sparse = per_head_mask({neighbours, neighbours});
  EXPECT_TRUE(sparse->factors().has_value());
  EXPECT_TRUE(sparse->counts().factor_entries.has_value());
}

}  // namespace
}  // namespace topomask
