#include <ATen/Parallel.h>

#include "masks/forest/trees.h"
#include "support/compare.h"
#include "support/mask_contract.h"

namespace topomask::testing {
namespace {

/// f at the distances, 0 beyond the table and between trees; [N, N] or [H, N, N].
at::Tensor lookup(const at::Tensor& f, const AllPairs& pairs) {
  const int64_t nodes = pairs.distance.size(0), entries = f.size(-1);
  const at::Tensor rows = f.dim() == 2 ? f : f.unsqueeze(0);
  const at::Tensor padded = at::cat({rows, at::zeros({rows.size(0), 1}, at::kDouble)}, 1);
  const at::Tensor index = pairs.distance.detach().clamp_max(static_cast<double>(entries)).to(at::kLong).flatten();
  const at::Tensor values = padded.index_select(1, index).reshape({rows.size(0), nodes, nodes}) * pairs.same_tree;
  return f.dim() == 2 ? values : values[0];
}

TEST(ForestTable, IsItsTableOnEveryShape) {
  for (const NamedParent& tree : parents()) {
    SCOPED_TRACE(tree.name);
    const at::Tensor weights = integer_weights(tree.parent.size(0), 3, 17);
    const AllPairs pairs = all_pairs(tree.parent, weights);
    const auto longest = static_cast<int64_t>((pairs.distance * pairs.same_tree).max().item<double>());
    const at::Tensor f = normal({longest + 3}, 18).requires_grad_();  // f(0) is not 0
    expect_mask_is(tree_mask(Forest(tree.parent, weights), DistanceFunction::table(f)), lookup(f, pairs));
  }
}

TEST(ForestTable, IsZeroBeyondItsTable) {
  const at::Tensor parent = shuffled(caterpillar_parent(17), 1), weights = integer_weights(34, 3, 17);
  const AllPairs pairs = all_pairs(parent, weights);
  for (const int64_t entries : {1, 2, 11}) {
    const at::Tensor f = normal({entries}, 18).requires_grad_();
    expect_mask_is(tree_mask(Forest(parent, weights), DistanceFunction::table(f)), lookup(f, pairs));
  }
}

TEST(ForestTable, HasATablePerHead) {
  const at::Tensor parent = parents().back().parent, weights = integer_weights(parent.size(0), 2, 19);
  const at::Tensor f = normal({3, 20}, 20).requires_grad_();
  expect_mask_is(tree_mask(Forest(parent, weights), DistanceFunction::table(f)), lookup(f, all_pairs(parent, weights)));
}

TEST(ForestTable, AnEmptyTableIsRefusedAndAnEmptyForestIsNot) {
  EXPECT_ERROR(DistanceFunction::table(at::empty({0}, at::kDouble)),
               "DistanceFunction::table: f must have at least one value, got Double[0]");
  EXPECT_ERROR(DistanceFunction::table(at::empty({3, 0})), "f must have at least one value, got Float[3, 0]");
  const MaskPtr empty = tree_mask(Forest(at::empty({0}, at::kLong)), DistanceFunction::table(at::ones({4})));
  EXPECT_EQ(empty->matmul(at::empty({0, 5})).sizes(), at::IntArrayRef({0, 5}));
}

TEST(ForestTable, TakesAnyFunctionOfIntegers) {
  const at::Tensor parent = random_parent(80, 21), weights = integer_weights(80, 2, 22);
  const AllPairs pairs = all_pairs(parent, weights);
  const auto odd =
      DistanceFunction::on_integers([](double d) { return std::fmod(d, 2.0) == 1.0 ? 0.5 : 1.0 / (1 + d); });
  const at::Tensor expected = at::where(at::remainder(pairs.distance, 2) == 1, 0.5, 1 / (1 + pairs.distance));
  expect_mask_is(tree_mask(Forest(parent, weights), odd), expected);
}

TEST(ForestTable, ServesSmoothFunctionsWhereLengthsAreIntegers) {
  const at::Tensor parent = random_parent(60, 23), weights = integer_weights(60, 2, 24);
  const auto kink = DistanceFunction::smooth([](double d) { return std::abs(d - 3); }, 1e-3);
  expect_mask_is(tree_mask(Forest(parent, weights), kink), (all_pairs(parent, weights).distance - 3).abs());
}

/// M·x of a few rows from their distances.
void expect_rows(const Forest& forest, const at::Tensor& f, const at::Tensor& x, const at::Tensor& y,
                 const std::vector<int64_t>& rows, double tolerance) {
  const at::Tensor padded = at::cat({f.detach(), at::zeros({1}, f.options().requires_grad(false))});
  for (const int64_t row : rows) {
    const at::Tensor place = forest.distances(row).clamp_max(static_cast<double>(f.size(0))).to(at::kLong);
    const at::Tensor values = padded.index_select(0, place);
    const double size = at::matmul(values.abs(), x.abs()).max().item<double>();
    EXPECT_LE((y[row] - at::matmul(values, x)).abs().max().item<double>(), tolerance * size) << "row " << row;
  }
}

/// Tall enough for transforms in float64, in values and in the gradient.
TEST(ForestTable, TallTreesByFft) {
  for (const at::Tensor& parent :
       {path_parent(9001), shuffled(caterpillar_parent(4000), 25), joined({path_parent(6000), star_parent(500)})}) {
    const int64_t nodes = parent.size(0);
    const Forest forest = Forest(parent, integer_weights(nodes, 2, 26));
    const at::Tensor f = at::exp(-0.001 * at::arange(forest.diameter() + 1, at::kDouble)).requires_grad_();
    const at::Tensor x = normal({nodes, 2}, 27), g = at::zeros({nodes, 2}, at::kDouble);
    const int64_t probe = nodes / 3;
    g[probe] = at::tensor({1.0, -2.0}, at::kDouble);
    const at::Tensor y = tree_mask(forest, DistanceFunction::table(f))->matmul(x);
    expect_rows(forest, f, x, y.detach(), {0, probe, nodes - 1}, 1e-10);
    // The gradient of ⟨g, M·x⟩ collects g_probe·x_j by distance.
    const at::Tensor distance = forest.distances(probe), inside = distance.isfinite().nonzero().flatten();
    const at::Tensor expected = at::zeros_like(f).index_add(0, distance.index_select(0, inside).to(at::kLong),
                                                            at::matmul(x, g[probe]).index_select(0, inside));
    EXPECT_TRUE(close(gradients(y, g, {f})[0], expected, 1e-10));
  }
}

TEST(ForestTable, TransformsInFloat32) {
  const int64_t nodes = 20000;
  const Forest forest(path_parent(nodes));
  const at::Tensor f = at::exp(-0.01 * at::arange(nodes, at::kFloat)), x = normal({nodes, 3}, 28).to(at::kFloat);
  const at::Tensor y = tree_mask(forest, DistanceFunction::table(f))->matmul(x);
  expect_rows(forest, f, x, y, {0, 777, nodes / 2, nodes - 1}, 1e-5);
}

TEST(ForestTable, LongLengthsCostNoMemory) {
  const at::Tensor parent = random_parent(3000, 29), weights = integer_weights(3000, 100000, 30);
  const Forest forest(parent, weights);
  const at::Tensor f = at::exp(-1e-5 * at::arange(1 << 20, at::kDouble)), x = normal({3000, 2}, 31);
  const at::Tensor y = tree_mask(forest, DistanceFunction::table(f))->matmul(x);
  expect_rows(forest, f, x, y, {0, 1500, 2999}, 1e-10);
}

TEST(ForestTable, IsBitEqualForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  const at::Tensor parent = shuffled(joined({random_parent(3001, 32), path_parent(7000)}), 33);
  const int64_t nodes = parent.size(0);
  const Forest forest(parent, integer_weights(nodes, 3, 34));
  const at::Tensor f = normal({static_cast<int64_t>(forest.diameter()) + 1}, 35).to(at::kFloat).requires_grad_();
  const MaskPtr mask = tree_mask(forest, DistanceFunction::table(f));
  for (const int64_t columns : {1, 7, 80}) {
    const at::Tensor x = normal({nodes, columns}, 36).to(at::kFloat), g = normal({nodes, columns}, 37).to(at::kFloat);
    at::Tensor first, first_gradient;
    for (const int count : {1, 2, 7}) {
      at::set_num_threads(count);
      const at::Tensor y = mask->matmul(x), gradient = gradients(y, g, {f})[0];
      if (!first.defined()) first = y.detach(), first_gradient = gradient;
      EXPECT_TRUE(y.detach().equal(first)) << count << " threads, " << columns << " columns";
      EXPECT_TRUE(gradient.equal(first_gradient)) << count << " threads, " << columns << " columns";
    }
  }
  at::set_num_threads(threads);
}

TEST(ForestTable, SharesItsDecomposition) {
  const Forest forest(random_parent(500, 38)), copy = forest;
  EXPECT_EQ(&forest.structure(), &copy.structure());
  EXPECT_EQ(&forest.to(at::kFloat).structure(), &forest.structure());
}

}  // namespace
}  // namespace topomask::testing
