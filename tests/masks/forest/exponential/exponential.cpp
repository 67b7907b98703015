#include <ATen/Parallel.h>

#include "masks/forest/trees.h"
#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask::testing {
namespace {

at::Tensor parameter(std::vector<double> values) {
  return at::tensor(values, at::kDouble).requires_grad_();
}

TEST(ForestExponential, IsItsFormulaOnEveryShape) {
  for (const NamedParent& tree : parents()) {
    SCOPED_TRACE(tree.name);
    const at::Tensor a = parameter({-0.7}), b = parameter({0.3});
    const at::Tensor weights = real_weights(tree.parent.size(0), 7).requires_grad_();
    const AllPairs pairs = all_pairs(tree.parent, weights);
    expect_mask_is(tree_mask(Forest(tree.parent, weights), DistanceFunction::exponential(a, b)),
                   pairs.same_tree * at::exp(a * pairs.distance + b));
  }
}

TEST(ForestExponential, HasAFunctionPerHead) {
  const at::Tensor parent = parents().back().parent, weights = real_weights(parent.size(0), 8);
  const AllPairs pairs = all_pairs(parent, weights);
  const at::Tensor a = parameter({-0.7, -0.1, 0.2}), b = parameter({0.3, 0.0, -0.4}), scalar = parameter({-0.5});
  const auto formula = [&](const at::Tensor& rate, const at::Tensor& shift) {
    return pairs.same_tree * at::exp(rate.reshape({-1, 1, 1}) * pairs.distance + shift.reshape({-1, 1, 1}));
  };
  const Forest forest(parent, weights);
  expect_mask_is(tree_mask(forest, DistanceFunction::exponential(a, b)), formula(a, b));
  expect_mask_is(tree_mask(forest, DistanceFunction::exponential(a, scalar)), formula(a, scalar));
  expect_mask_is(tree_mask(forest, DistanceFunction::exponential(scalar, b)), formula(scalar, b));
  expect_mask_is(tree_mask(forest, DistanceFunction::exponential(a)), formula(a, at::zeros({1}, at::kDouble)));
}

TEST(ForestExponential, LearnsNegativeLengths) {
  const at::Tensor parent = random_parent(40, 9), a = parameter({-0.4});
  const at::Tensor weights = (real_weights(40, 10) - 0.9).requires_grad_();
  const AllPairs pairs = all_pairs(parent, weights);
  expect_mask_is(tree_mask(Forest(parent, weights), DistanceFunction::exponential(a)), at::exp(a * pairs.distance));
}

TEST(ForestExponential, GrowingMasksKeepTheirDigitsInFloat32) {
  const at::Tensor parent = path_parent(30), x = normal({30, 4}, 11);
  const at::Tensor exact = at::matmul(at::exp(all_pairs(parent, at::ones({30})).distance), x);
  const MaskPtr mask = tree_mask(Forest(parent), DistanceFunction::exponential(1.0));
  const at::Tensor y = mask->matmul(x.to(at::kFloat));
  const at::Tensor size = at::matmul(at::exp(all_pairs(parent, at::ones({30})).distance), x.abs());
  EXPECT_LE(((y.to(at::kDouble) - exact).abs() / size).max().item<double>(), 1e-5);
}

TEST(ForestExponential, EmptyForestsAndNoColumns) {
  const MaskPtr empty = tree_mask(Forest(at::empty({0}, at::kLong)), DistanceFunction::exponential(-1.0));
  EXPECT_EQ(empty->matmul(at::empty({0, 5})).sizes(), at::IntArrayRef({0, 5}));
  const MaskPtr two = tree_mask(Forest(path_parent(2)), DistanceFunction::exponential(-1.0));
  EXPECT_EQ(two->matmul(at::empty({2, 0})).sizes(), at::IntArrayRef({2, 0}));
}

TEST(ForestExponential, PathOfAMillionNodesNeedsNoStack) {
  const int64_t nodes = 1'000'000;
  const MaskPtr mask = tree_mask(Forest(path_parent(nodes)), DistanceFunction::exponential(-0.1));
  const at::Tensor y = mask->matmul(at::ones({nodes, 1}));
  // In the middle the sum is that of a two-sided geometric series.
  const double e = std::exp(-0.1);
  EXPECT_NEAR(y[nodes / 2][0].item<double>(), (1 + e) / (1 - e), 1e-4);
  EXPECT_NEAR(y[nodes - 1][0].item<double>(), 1 / (1 - e), 1e-4);
}

TEST(ForestExponential, SumsAMillionLeavesOfAStar) {
  const int64_t nodes = 1'000'000;
  const MaskPtr mask = tree_mask(Forest(star_parent(nodes)), DistanceFunction::exponential(-1.0));
  const at::Tensor y = mask->to(at::kDouble)->matmul(at::ones({nodes, 1}, at::kDouble));
  EXPECT_NEAR(y[0][0].item<double>(), 1 + (nodes - 1) * std::exp(-1.0), 1e-4);
  EXPECT_NEAR(y[7][0].item<double>(), 1 + std::exp(-1.0) + (nodes - 2) * std::exp(-2.0), 1e-4);
}

TEST(ForestExponential, IsBitEqualForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  const at::Tensor parent = shuffled(joined({random_parent(5003, 12), path_parent(701)}), 13);
  const int64_t nodes = parent.size(0);
  for (const double rate : {-0.3, 0.001}) {
    for (const int64_t columns : {1, 5, 64, 201}) {
      const at::Tensor weights = real_weights(nodes, 14).to(at::kFloat).requires_grad_();
      const at::Tensor a = at::scalar_tensor(rate, at::kFloat).requires_grad_(), b = at::zeros({}).requires_grad_();
      const MaskPtr mask = tree_mask(Forest(parent, weights), DistanceFunction::exponential(a, b));
      const at::Tensor x = normal({nodes, columns}, 15).to(at::kFloat), g = normal({nodes, columns}, 16).to(at::kFloat);
      std::vector<at::Tensor> first;
      for (const int count : {1, 2, 7}) {
        at::set_num_threads(count);
        const at::Tensor y = mask->matmul(x);
        std::vector<at::Tensor> results = gradients(y, g, {a, b, weights});
        results.push_back(y.detach());
        if (first.empty()) first = results;
        for (size_t i = 0; i < results.size(); ++i)
          EXPECT_TRUE(results[i].equal(first[i])) << count << ", result " << i;
      }
    }
  }
  at::set_num_threads(threads);
}

TEST(ForestExponential, IsTheSameBeyondTheCachesAsInThem) {
  const int64_t nodes = 90001;
  at::Tensor parent = (at::rand({nodes}, at::kDouble) * at::arange(nodes)).to(at::kLong);
  parent[0] = -1;
  parent[nodes / 2] = -1;
  for (const at::Tensor& tree : {parent, at::arange(nodes, at::kLong) - 1}) {
    const MaskPtr mask = tree_mask(Forest(tree), DistanceFunction::exponential(-0.5, 0.2));
    for (const int64_t columns : {64, 63}) {
      const at::Tensor x = at::rand({nodes, columns});
      const at::Tensor left = mask->matmul(x.narrow(1, 0, 32)), right = mask->matmul(x.narrow(1, 32, columns - 32));
      const int threads = at::get_num_threads();
      at::Tensor first;
      for (const int t : {1, 2, 7}) {
        at::set_num_threads(t);
        const at::Tensor y = mask->matmul(x);
        EXPECT_TRUE(at::allclose(y, at::cat({left, right}, 1), 1e-5)) << columns << " columns, " << t << " threads";
        if (!first.defined()) first = y;
        EXPECT_TRUE(at::equal(y, first)) << columns << " columns, " << t << " threads";
      }
      at::set_num_threads(threads);
    }
  }
}

}  // namespace
}  // namespace topomask::testing
