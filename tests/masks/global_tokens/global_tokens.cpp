#include "topomask/global_tokens.h"

#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

using testing::expect_mask_is;
using testing::normal;

TEST(GlobalTokens, FrameTheMaskWithOnes) {
  const Graph graph = Graph::grid({3, 4});
  const at::Tensor values = (normal({2, graph.num_entries()}, 5).abs() + 0.1).requires_grad_();
  const std::vector<MaskPtr> inner{none_mask(5), causal_mask(6),
                                   dense_mask(normal({2, 5, 5}, 6).abs().requires_grad_()),
                                   neighbours_mask(graph.to(at::kDouble)), sparse_mask({graph.pattern(), values})};
  for (const MaskPtr& mask : inner) {
    for (int64_t tokens : {1, 3}) {
      const at::Tensor reference = at::constant_pad_nd(mask->dense().to(at::kDouble), {tokens, 0, tokens, 0}, 1);
      expect_mask_is(with_global_tokens(mask, tokens), reference);
    }
  }
  EXPECT_EQ(with_global_tokens(inner[0], 0), inner[0]);
}

}  // namespace
}  // namespace topomask
