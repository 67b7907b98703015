#include "sparse/dense_rows.h"

#include "support/compare.h"
#include "topomask/graph.h"

namespace topomask {
namespace {

TEST(DenseRows, AreThoseOfTheDenseMatrix) {
  const SparseMatrix matrix = Graph::erdos_renyi(13, 0.3, 2).normalised(0.9).matrix();
  const SparseMatrix heads{matrix.pattern, at::stack({matrix.values, 2 * matrix.values})};
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 13}, {4, 5}, {12, 1}, {7, 0}}) {
    const at::Tensor one = matrix.dense().narrow(0, first, count).unsqueeze(0);
    EXPECT_TRUE(at::equal(dense_rows(matrix, first, count), one)) << first;
    EXPECT_TRUE(at::equal(dense_rows(heads, first, count), at::cat({one, 2 * one}))) << first;
  }
}

}  // namespace
}  // namespace topomask
