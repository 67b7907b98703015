// The sparse product behind the masks: its pattern and its values, over patterns of every shape.

#include "sparse/product.h"

#include "masks/grf/grf_testing.h"
#include "sparse/product_estimate.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;
using testing::normal;

/// A random matrix [rows, cols], about `per_row` entries in each, some rows empty; values [H, entries].
SparseMatrix random_matrix(int64_t rows, int64_t cols, double per_row, int64_t heads, uint64_t seed) {
  at::Tensor keep = normal({rows, cols}, seed).abs() < 1.25 * per_row / static_cast<double>(std::max<int64_t>(cols, 1));
  if (rows > 2) keep[2].fill_(false);
  const at::Tensor places = keep.nonzero();
  const at::Tensor offsets = at::cat({at::zeros({1}, at::kLong), keep.sum(1).cumsum(0)});
  const auto pattern =
      std::make_shared<SparsePattern>(rows, cols, offsets, places.select(1, 1).to(at::kInt).contiguous());
  return {pattern, normal({heads, pattern->entries()}, seed + 1).requires_grad_()};
}

PatternPtr nonzeros(const at::Tensor& dense) {
  const at::Tensor places = (dense != 0).nonzero();
  return std::make_shared<SparsePattern>(dense.size(0), dense.size(1),
                                         at::cat({at::zeros({1}, at::kLong), (dense != 0).sum(1).cumsum(0)}),
                                         places.select(1, 1).to(at::kInt).contiguous());
}

TEST(SparseProduct, HasThePatternOfTheDenseProduct) {
  struct Shape {
    int64_t rows, cols, other;
    double per_row;
  };
  // Few and many entries: rows are sorted, or read from bits; 9000 columns make more than one group of those.
  for (const Shape& s : std::vector<Shape>{
           {0, 5, 3, 1}, {1, 1, 1, 1}, {63, 17, 31, 2}, {40, 30, 9000, 12}, {300, 64, 300, 30}, {5, 0, 4, 0}}) {
    const SparseMatrix a = random_matrix(s.rows, s.cols, s.per_row, 1, 1);
    const SparseMatrix b = random_matrix(s.other, s.cols, s.per_row, 1, 3);
    const at::Tensor dense = at::matmul((a.dense() != 0).to(at::kDouble), (b.dense() != 0).to(at::kDouble).mT())[0];
    const PatternPtr expected = nonzeros(dense), pattern = a.pattern->product(b.pattern);
    EXPECT_TRUE(at::equal(pattern->offsets(), expected->offsets()));
    EXPECT_TRUE(at::equal(pattern->columns(), expected->columns()));
    EXPECT_EQ(a.pattern->product(b.pattern), pattern) << "kept";
    if (s.rows > 0 && s.rows <= 256) {
      EXPECT_EQ(estimate_product({a.pattern, b.pattern}).entries, static_cast<double>(pattern->entries()));
    }
  }
}

TEST(SparseProduct, IsEstimatedAlikeByTensorOperations) {
  for (const int64_t rows : {0, 1, 40, 256, 1000}) {
    const PatternPtr a = random_matrix(rows, 70, 3, 1, 1).pattern, b = random_matrix(90, 70, 4, 1, 3).pattern;
    const PatternPtr c = random_matrix(60, 90, 2, 1, 5).pattern;
    for (const std::vector<PatternPtr>& chain : {std::vector{a, b}, {a, a}, {a}}) {
      const ProductEstimate here = estimate_product(chain), tensors = estimate_with_tensors(chain);
      EXPECT_EQ(tensors.entries, here.entries);
      EXPECT_EQ(tensors.work, here.work);
    }
    // A·Bᵀ·(Cᵀ)ᵀ: of four factors, so that distinct columns are taken up again.
    const std::vector<PatternPtr> longer{
        a, b, std::make_shared<SparsePattern>(90, 60, c->transposed().offsets, c->transposed().columns)};
    EXPECT_EQ(estimate_with_tensors(longer).entries, estimate_product(longer).entries);
    EXPECT_EQ(estimate_with_tensors(longer).work, estimate_product(longer).work);
  }
}

TEST(SparseProduct, ForgetsThePatternOfAMatrixThatIsGone) {
  const SparseMatrix a = random_matrix(7, 5, 2, 1, 1);
  std::weak_ptr<const SparsePattern> made;
  {
    const SparseMatrix b = random_matrix(7, 5, 2, 1, 3);
    made = a.pattern->product(b.pattern);
    EXPECT_EQ(a.pattern->known_product(a.pattern), nullptr);
  }
  const PatternPtr own = a.pattern->product(a.pattern);
  EXPECT_TRUE(made.expired());
  EXPECT_EQ(a.pattern->known_product(a.pattern), own);
}

TEST(SparseProduct, HasTheValuesAndGradientsOfTheDenseProduct) {
  for (int64_t heads : {1, 3}) {
    const SparseMatrix a = random_matrix(63, 17, 3, heads, 1), b = random_matrix(31, 17, 4, heads, 3);
    const at::Tensor dense = at::matmul(a.dense(), b.dense().mT());
    const PatternPtr pattern = a.pattern->product(b.pattern);
    const at::Tensor values = sparse_product(a, b, *pattern), g = normal(dense.sizes(), 5);
    const at::Tensor made = SparseMatrix{pattern, values}.dense();
    EXPECT_TRUE(close(made, dense, 1e-13));
    const auto got = gradients(made, g, {a.values, b.values}), want = gradients(dense, g, {a.values, b.values});
    EXPECT_TRUE(close(got[0], want[0], 1e-13) && close(got[1], want[1], 1e-13));
  }
}

TEST(SparseProduct, OfAMatrixWithItself) {
  const SparseMatrix a = random_matrix(63, 17, 3, 2, 1);
  const PatternPtr pattern = a.pattern->product(a.pattern);
  const at::Tensor dense = at::matmul(a.dense(), a.dense().mT()), g = normal(dense.sizes(), 5);
  const at::Tensor made = SparseMatrix{pattern, sparse_gram(a, *pattern)}.dense();
  EXPECT_TRUE(close(made, dense, 1e-13));
  EXPECT_TRUE(close(gradients(made, g, {a.values})[0], gradients(dense, g, {a.values})[0], 1e-13));
}

TEST(SparseProduct, MayBeAskedForSomeEntriesOnly) {
  const SparseMatrix a = random_matrix(31, 17, 5, 1, 1), b = random_matrix(29, 17, 5, 1, 3),
                     some = random_matrix(31, 29, 4, 1, 7);
  const at::Tensor wanted = (some.dense() != 0).to(at::kDouble), dense = at::matmul(a.dense(), b.dense().mT()) * wanted;
  const at::Tensor made = SparseMatrix{some.pattern, sparse_product(a, b, *some.pattern)}.dense();
  const at::Tensor g = normal(dense.sizes(), 5);
  EXPECT_TRUE(close(made, dense, 1e-13));
  const auto got = gradients(made, g, {a.values, b.values}), want = gradients(dense, g, {a.values, b.values});
  EXPECT_TRUE(close(got[0], want[0], 1e-13) && close(got[1], want[1], 1e-13));
}

TEST(SparseProduct, SaysWhatIsWrong) {
  const SparseMatrix a = random_matrix(7, 5, 2, 1, 1), b = random_matrix(6, 5, 2, 1, 3),
                     c = random_matrix(6, 4, 2, 1, 3);
  const PatternPtr pattern = a.pattern->product(b.pattern);
  EXPECT_ERROR(a.pattern->product(c.pattern), "SparsePattern::product: other must have 5 columns, got 4");
  EXPECT_ERROR(a.pattern->product(nullptr), "SparsePattern::product: other must have 5 columns, got none");
  EXPECT_ERROR(sparse_product(a, c, *pattern),
               "sparse_product: b_pattern must have the columns of a_pattern, 5, got 4");
  EXPECT_ERROR(sparse_product(a, b, *a.pattern), "sparse_product: out must be a pattern [7, 6], got [7, 5]");
  EXPECT_ERROR(sparse_product({a.pattern, a.values.to(at::kInt)}, b, *pattern),
               "sparse_product: a must be Float or Double [H, entries] on cpu, got Int");
  EXPECT_ERROR(sparse_product(a, {b.pattern, b.values.to(at::kFloat)}, *pattern),
               "sparse_product: b must be Double [H = 1");
  EXPECT_ERROR(sparse_gram(a, *pattern), "sparse_gram: out must be a pattern [7, 7], got [7, 6]");
}

}  // namespace
}  // namespace topomask
