#include "cuda/on_cuda.h"
#include "ops/low_rank_level/op.h"
#include "support/compare.h"
#include "support/sparse_reference.h"

// Masks over trees that are made of these: cuda/forest.cpp.

namespace topomask {
namespace {

using at::Tensor;
using LowRankLevel = testing::OnCuda;

/// Two components: groups of 3, 5 (as two pieces) and 2 nodes at rank 11, then of 4 and 1 at rank 2.
TEST_F(LowRankLevel, AddsWhatTheGroupsOfAComponentGiveEachOther) {
  constexpr int64_t kNodes = 20, kLevel = 15, kRank = 11;
  struct Piece {
    int64_t first, count, rank, group, component;
  };
  const std::vector<Piece> pieces{{0, 3, 11, 0, 0}, {3, 4, 11, 1, 0}, {7, 1, 11, 1, 0},
                                  {8, 2, 11, 2, 0}, {10, 4, 2, 3, 1}, {14, 1, 2, 4, 1}};
  const Tensor nodes = (at::arange(kLevel) * 7 % kNodes).to(at::kInt);  // the rest of the forest is in none of them
  const Tensor x = testing::random_tensor({2, 3, kNodes, 33}, 1), y = testing::random_tensor({2, 3, kNodes, 33}, 2);
  std::vector<int64_t> fields;
  int64_t factors = 0;
  for (const Piece& p : pieces) {
    fields.insert(fields.end(), {p.first, p.count, p.rank, p.group, factors});
    factors += p.count * p.rank;
  }
  const Tensor send = testing::random_tensor({factors}, 3), receive = testing::random_tensor({factors}, 4);
  Tensor matrix = at::zeros({kNodes, kNodes}, at::kDouble);
  for (size_t a = 0; a < pieces.size(); ++a) {
    for (size_t b = 0; b < pieces.size(); ++b) {
      const Piece &to = pieces[a], &from = pieces[b];
      if (to.component != from.component || to.group == from.group) continue;
      const auto rows = [](const Tensor& all, int64_t begin, const Piece& p) {
        return all.narrow(0, begin, p.count * p.rank).view({p.count, p.rank});
      };
      const Tensor block = at::matmul(rows(receive, fields[5 * a + 4], to), rows(send, fields[5 * b + 4], from).t());
      for (int64_t i = 0; i < to.count; ++i) {
        for (int64_t j = 0; j < from.count; ++j) {
          matrix[nodes[to.first + i].item<int64_t>()][nodes[from.first + j].item<int64_t>()] = block[i][j];
        }
      }
    }
  }
  Tensor there = y.to(cuda_);
  ops::low_rank_level::add_products(
      there, x.to(cuda_), nodes.to(cuda_), at::tensor(fields, at::kLong).view({-1, 5}).to(cuda_),
      at::tensor({0, 4, 6}, at::kLong).to(cuda_), send.to(cuda_), receive.to(cuda_), kRank);
  EXPECT_TRUE(testing::close(there.cpu(), y + at::matmul(matrix, x), 1e-13));
}

}  // namespace
}  // namespace topomask
