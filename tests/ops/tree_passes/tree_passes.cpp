#include "cuda/on_cuda.h"
#include "ops/tree_passes/op.h"
#include "support/compare.h"
#include "support/sparse_reference.h"

// Masks over trees that are made of these: cuda/forest.cpp.

namespace topomask {
namespace {

using at::Tensor;
using TreePasses = testing::OnCuda;

/// 0 ─ 1 ─ 2 ─ 3 is the heavy path of the first tree; 4 hangs from 0, 5 ─ 6 from 1, 7 from 5; 8 is a tree of its own.
TEST_F(TreePasses, AreTheSumsOverSubtreesAndTheirComplements) {
  constexpr int64_t kNodes = 9;
  const std::vector<int64_t> parent{-1, 0, 1, 2, 0, 1, 5, 5, -1};
  const auto index = [&](std::vector<int> values) { return at::tensor(values, at::kInt).to(cuda_); };
  // Paths by level: [0 1 2 3] and [8], then [4] and [5 6], then [7].
  const std::vector<Tensor> paths{index({0, 1, 2, 3, 8, 4, 5, 6, 7}),    index({0, 4, 5, 6, 8, 9}),
                                  index({-1, 0, 1, 2, 0, 1, 5, 5, -1}),  index({1, 2, 3, -1, -1, 6, -1, -1, -1}),
                                  index({0, 1, 2, 2, 2, 2, 3, 3, 3, 3}), index({4, 5, 7})};
  const std::vector<int64_t> levels{0, 2, 4, 5};
  const Tensor x = testing::random_tensor({2, 3, kNodes, 33}, 1), edge = testing::random_tensor({3, kNodes}, 2);
  const auto factor = [&](int64_t v) { return edge.select(1, v).view({1, 3, 1}); };
  std::vector<Tensor> inside, outside(kNodes);
  for (int64_t v = 0; v < kNodes; ++v) inside.push_back(x.select(2, v).clone());
  for (const int64_t v : {7, 6, 5, 4, 3, 2, 1}) inside[static_cast<size_t>(parent[v])] += factor(v) * inside[v];
  for (int64_t v = 0; v < kNodes; ++v) {  // a parent has a smaller number
    outside[v] = at::zeros_like(inside[v]);
    if (parent[v] < 0) continue;
    const int64_t p = parent[v];
    const Tensor siblings = inside[p] - factor(v) * inside[v];  // of p itself too
    outside[v] = factor(v) * (siblings + outside[p]);
  }
  const auto [made_inside, made_outside] =
      ops::tree_passes::inside_and_outside(x.to(cuda_), edge.to(cuda_), paths, levels);
  EXPECT_TRUE(testing::close(made_inside.cpu(), at::stack(inside, 2), 1e-13));
  EXPECT_TRUE(testing::close(made_outside.cpu(), at::stack(outside, 2), 1e-13));
}

}  // namespace
}  // namespace topomask
