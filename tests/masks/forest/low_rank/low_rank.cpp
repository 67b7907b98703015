#include <ATen/Parallel.h>

#include "masks/forest/trees.h"
#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask::testing {
namespace {

using F = DistanceFunction;

TEST(ForestLowRank, ExactFunctionsAreExactOnEveryShape) {
  for (const NamedParent& tree : parents()) {
    SCOPED_TRACE(tree.name);
    const at::Tensor weights = real_weights(tree.parent.size(0), 40);
    const Forest forest(tree.parent, weights);
    const AllPairs pairs = all_pairs(tree.parent, weights);
    const at::Tensor d = pairs.distance;
    expect_mask_is(tree_mask(forest, F::product(F::polynomial({1.0, -0.5, 0.02}), F::exponential(-0.4, 0.1))),
                   pairs.same_tree * (1 - 0.5 * d + 0.02 * d * d) * at::exp(-0.4 * d + 0.1));
    expect_mask_is(tree_mask(forest, F::sum(F::product(F::cosine(0.7, 0.2), F::cosine(1.1)), F::polynomial({0.3}))),
                   pairs.same_tree * (at::cos(0.7 * d + 0.2) * at::cos(1.1 * d) + 0.3));
  }
}

TEST(ForestLowRank, SmoothFunctionsMeetTheirTolerance) {
  const at::Tensor parent = shuffled(joined({random_parent(700, 41), path_parent(200)}), 42);
  const int64_t nodes = parent.size(0);
  const Forest forest(parent, real_weights(nodes, 43));
  struct Case {
    const char* name;
    F::Function f;
  };
  for (const Case& c :
       {Case{"rational", [](double d) { return 1 / (1 + d * d); }},
        Case{"gaussian", [](double d) { return std::exp(-0.5 * d * d); }},
        Case{"root", [](double d) { return std::sqrt(1 + d); }}, Case{"zero", [](double) { return 0.0; }}}) {
    for (const double tolerance : {1e-2, 1e-5, 1e-10}) {
      const MaskPtr mask = tree_mask(forest, F::smooth(c.f, tolerance));
      for (const int64_t node : {int64_t{0}, nodes / 2, nodes - 1}) {
        at::Tensor unit = at::zeros({nodes, 1}, at::kDouble), expected = at::zeros({nodes}, at::kDouble);
        unit[node] = 1.0;
        const at::Tensor distance = forest.distances(node);
        double largest = 0;
        for (int64_t i = 0; i < nodes; ++i) {
          const double d = distance[i].item<double>();
          if (!std::isfinite(d)) continue;
          expected[i] = c.f(d);
          largest = std::max(largest, std::abs(c.f(2 * d)));  // max|f| is over twice the reach
        }
        largest = std::max(largest, expected.abs().max().item<double>());
        EXPECT_LE((mask->matmul(unit).squeeze(1) - expected).abs().max().item<double>(), tolerance * largest + 1e-13)
            << c.name << " at " << tolerance;
      }
    }
  }
}

TEST(ForestLowRank, ProductsWithASmoothFunctionAreSmooth) {
  const at::Tensor parent = random_parent(60, 44), weights = real_weights(60, 45);
  const at::Tensor d = all_pairs(parent, weights).distance;
  const auto f = F::product(F::smooth([](double x) { return 1 / (1 + x); }, 1e-13), F::cosine(0.5));
  // The mask changes sign: attention divides the tolerance by small denominators.
  expect_mask_is(tree_mask(Forest(parent, weights), f), at::cos(0.5 * d) / (1 + d), 1e-8);
}

TEST(ForestLowRank, GrowingPolynomialsKeepTheirDigitsInFloat32) {
  // A broom: a long handle, then nodes close to each other, far from the centroid.
  const at::Tensor parent = at::cat({path_parent(400), at::full({300}, 399, at::kLong)});
  const at::Tensor weights = at::full({700}, 0.5, at::kFloat);
  const MaskPtr mask = tree_mask(Forest(parent, weights), F::polynomial({0.0, 0.0, 1.0}));
  at::Tensor x = at::zeros({700, 1});
  x.slice(0, 400).fill_(1.0);
  const at::Tensor y = mask->matmul(x).to(at::kDouble);
  for (const int64_t row : {0, 200, 399, 400, 699}) {
    const at::Tensor d = Forest(parent, weights).distances(row);
    const double exact = at::dot(d * d, x.squeeze(1).to(at::kDouble)).item<double>();
    EXPECT_NEAR(y[row][0].item<double>(), exact, 1e-5 * exact) << "row " << row;
  }
}

TEST(ForestLowRank, TooRoughAFunctionIsRefused) {
  const Forest forest(path_parent(200), at::full({200}, 0.5, at::kDouble));
  EXPECT_ERROR(tree_mask(forest, F::smooth([](double d) { return std::fmod(d, 3.0); }, 1e-8)),
               "DistanceFunction::smooth: tolerance 1e-08 must be within reach of degree 512 on [0, 100]");
}

TEST(ForestLowRank, AFunctionThatIsNotFiniteIsRefused) {
  const Forest forest(path_parent(20), at::full({20}, 0.5, at::kDouble));
  EXPECT_ERROR(tree_mask(forest, F::smooth([](double) { return NAN; })),
               "DistanceFunction::smooth: f must be finite on [0, 10], got nan at ");
  EXPECT_ERROR(tree_mask(forest, F::smooth([](double d) { return d > 5 ? INFINITY : 1.0; })),
               "DistanceFunction::smooth: f must be finite on [0, 10], got inf at ");
}

TEST(ForestLowRank, WhatMeetsItsToleranceIsTaken) {
  // No degree brings these to a small part of their tolerance, but degree 512 brings them inside it.
  const at::Tensor parent = random_parent(60, 50), weights = real_weights(60, 51);
  const Forest forest(parent, weights);
  const at::Tensor distance = all_pairs(parent, weights).distance;
  struct Case {
    const char* name;
    F::Function f;
    double tolerance;
  };
  for (const Case& c : {Case{"root", [](double d) { return std::sqrt(d); }, 1e-3},
                        Case{"kink", [](double d) { return std::abs(d - 3); }, 1e-2},
                        Case{"near the precision", [](double d) { return 1 / (1 + d); }, 1e-14}}) {
    const at::Tensor m = tree_mask(forest, F::smooth(c.f, c.tolerance))->dense();
    double error = 0, largest = 0;
    for (int64_t i = 0; i < distance.size(0); ++i) {
      for (int64_t j = 0; j < distance.size(0); ++j) {
        const double exact = c.f(distance[i][j].item<double>());
        error = std::max(error, std::abs(m[i][j].item<double>() - exact));
        largest = std::max(largest, std::abs(exact));
      }
    }
    EXPECT_LE(error, c.tolerance * largest + 1e-13) << c.name;
  }
}

TEST(ForestLowRank, ZeroLengthsAndEmptyForests) {
  at::Tensor weights = at::zeros({50}, at::kDouble);
  weights[49] = 0.25;
  const Forest close_by(path_parent(50), weights);
  const auto f = F::smooth([](double d) { return 2 - d; }, 1e-12);
  const at::Tensor y = tree_mask(close_by, f)->matmul(at::ones({50, 1}, at::kDouble));
  EXPECT_NEAR(y[0][0].item<double>(), 49 * 2 + 1.75, 1e-9);
  const MaskPtr empty = tree_mask(Forest(at::empty({0}, at::kLong), at::empty({0}, at::kDouble)), f);
  EXPECT_EQ(empty->matmul(at::empty({0, 5}, at::kDouble)).sizes(), at::IntArrayRef({0, 5}));
}

TEST(ForestLowRank, IsBitEqualForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  const at::Tensor parent = shuffled(joined({random_parent(7001, 46), path_parent(900)}), 47);
  const int64_t nodes = parent.size(0);
  const MaskPtr mask = tree_mask(Forest(parent, real_weights(nodes, 48).to(at::kFloat)),
                                 F::smooth([](double d) { return 1 / (1 + d); }, 1e-5));
  for (const int64_t columns : {1, 7, 80}) {
    const at::Tensor x = normal({nodes, columns}, 49).to(at::kFloat);
    at::Tensor first;
    for (const int count : {1, 2, 7}) {
      at::set_num_threads(count);
      const at::Tensor y = mask->matmul(x);
      if (!first.defined()) first = y;
      EXPECT_TRUE(y.equal(first)) << count << " threads, " << columns << " columns";
    }
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace topomask::testing
