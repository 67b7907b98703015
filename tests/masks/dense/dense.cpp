#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

using testing::expect_mask_is;
using testing::normal;

TEST(DenseMask, IsItsMatrixPerHead) {
  const at::Tensor shared = normal({7, 7}, 1).abs().requires_grad_();
  expect_mask_is(dense_mask(shared), shared);
  const at::Tensor per_head = normal({3, 5, 5}, 2).abs().requires_grad_();
  expect_mask_is(dense_mask(per_head), per_head);
}

}  // namespace
}  // namespace topomask
