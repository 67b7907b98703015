#include "support/compare.h"
#include "support/mask_contract.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

using testing::expect_mask_is;

TEST(NoneMask, IsAllOnes) {
  for (int64_t n : {1, 2, 7, 63}) expect_mask_is(none_mask(n), at::ones({n, n}, at::kDouble));
}

}  // namespace
}  // namespace topomask
