#include "cuda/on_cuda.h"
#include "ops/tree_table/op.h"
#include "support/compare.h"
#include "support/sparse_reference.h"

// Masks over trees that are made of these: cuda/forest.cpp.

namespace topomask {
namespace {

using at::Tensor;
using testing::close;
using testing::random_tensor;
using TreeTable = testing::OnCuda;

TEST_F(TreeTable, SumsTheItemsOfRows) {
  const Tensor x = random_tensor({2, 3, 50, 33}, 1);
  const Tensor offsets = at::tensor({0, 0, 1, 7, 70}, at::kLong), items = (at::arange(70) * 37 % 50).to(at::kInt);
  std::vector<Tensor> rows;
  for (int64_t r = 0; r < 4; ++r) {
    const int64_t first = offsets[r].item<int64_t>(), last = offsets[r + 1].item<int64_t>();
    rows.push_back(x.index_select(2, items.slice(0, first, last).to(at::kLong)).sum(2));
  }
  const Tensor got = ops::tree_table::row_sums(x.to(cuda_), offsets.to(cuda_), items.to(cuda_));
  EXPECT_TRUE(close(got.cpu(), at::stack(rows, 2), 1e-13));
}

TEST_F(TreeTable, SpreadsProductsOverNodes) {
  const Tensor y = random_tensor({2, 3, 50, 33}, 1), products = random_tensor({2, 3, 9, 33}, 2);
  const Tensor place = (at::arange(50) % 10 - 1).to(at::kInt);  // every tenth node has none
  Tensor expected = y.clone();
  for (int64_t i = 0; i < 50; ++i) {
    const auto from = place[i].item<int64_t>();
    if (from >= 0) expected.select(2, i).sub_(products.select(2, from), 0.5);
  }
  const Tensor there = y.to(cuda_);
  ops::tree_table::spread(there, products.to(cuda_), place.to(cuda_), -0.5);
  EXPECT_TRUE(close(there.cpu(), expected, 1e-14));
}

/// Two meetings, of 11 and of 3 rows; a table that ends before the largest sums of depths, followed by its 0.
TEST_F(TreeTable, MultipliesByATableOfSumsOfDepths) {
  constexpr int64_t kRows = 14, kEntries = 15;
  const std::vector<std::pair<int64_t, int64_t>> meetings{{0, 11}, {11, 14}};
  const Tensor depth = at::tensor({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 0, 1, 2}, at::kInt);
  const Tensor tiles =
      at::tensor({0, 8, 0, 11, 8, 3, 0, 11, 11, 3, 11, 14}, at::kInt).view({3, 4});  // first, count, begin, end
  for (const int64_t heads : {1, 3}) {
    Tensor table = random_tensor({heads, kEntries + 1}, 1);
    table.select(1, kEntries).zero_();
    const Tensor x = random_tensor({2, 3, kRows, 33}, 2), g = random_tensor({2, 3, kRows, 33}, 3);
    Tensor matrix = at::zeros({heads, kRows, kRows}, at::kDouble),
           slope = at::zeros({heads, kEntries + 1}, at::kDouble);
    const Tensor dots = at::matmul(g, x.mT()).sum(0);  // [3, rows, rows]
    for (const auto& [first, last] : meetings) {
      for (int64_t s = first; s < last; ++s) {
        for (int64_t t = first; t < last; ++t) {
          const int64_t k = depth[s].item<int64_t>() + depth[t].item<int64_t>();
          if (k >= kEntries) continue;
          matrix.select(1, s).select(1, t).copy_(table.select(1, k));
          const Tensor of_pair = dots.select(1, s).select(1, t);
          slope.select(1, k).add_(heads == 1 ? of_pair.sum() : of_pair, 2.0);
        }
      }
    }
    const Tensor got = ops::tree_table::hankel(table.to(cuda_), x.to(cuda_), depth.to(cuda_), tiles.to(cuda_));
    EXPECT_TRUE(close(got.cpu(), at::matmul(matrix, x), 1e-13));
    const Tensor gradient = at::zeros({heads, kEntries + 1}, at::device(cuda_).dtype(at::kDouble));
    ops::tree_table::add_hankel_gradient(gradient, g.to(cuda_), x.to(cuda_), depth.to(cuda_), tiles.to(cuda_), 2.0);
    EXPECT_TRUE(close(gradient.cpu(), slope, 1e-12));
  }
}

}  // namespace
}  // namespace topomask
