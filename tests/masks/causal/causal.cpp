#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

using testing::expect_mask_is;

TEST(CausalMask, IsLowerTriangular) {
  for (int64_t n : {1, 2, 13, 64, 131}) expect_mask_is(causal_mask(n), at::ones({n, n}, at::kDouble).tril());
}

TEST(CausalMask, IsNotRoundedByLaterNodes) {
  // Nodes 64 … 127 are one chunk: what came before it must not be a difference of sums that have its last node in them.
  const at::Tensor ones = at::ones({128, 1}), v = at::ones({128, 1});
  v.select(0, 127).fill_(1e9);
  const at::Tensor out =
      attention(ones, ones, v, causal_mask(128), {.features = FeatureMap::identity(), .route = Route::operator_});
  EXPECT_TRUE(testing::close(out.narrow(0, 0, 127), at::ones({127, 1}), 1e-6));
}

}  // namespace
}  // namespace topomask
