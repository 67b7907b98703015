#include "ops/constant_offsets.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace topomask::ops {
namespace {

TEST(ConstantOffsets, TellTheLongestRowOnceTheyMayWait) {
  const at::Tensor offsets = at::tensor({0, 3, 3, 10, 11}, at::kLong);
  EXPECT_FALSE(ConstantOffsets::longest_row(offsets, true));  // anyone may write to them
  ConstantOffsets::add(offsets);
  EXPECT_FALSE(ConstantOffsets::longest_row(offsets, false));
  EXPECT_EQ(ConstantOffsets::longest_row(offsets, true), 7);
  EXPECT_EQ(ConstantOffsets::longest_row(offsets, false), 7);
  EXPECT_FALSE(ConstantOffsets::longest_row(offsets.clone(), true));
}

TEST(ConstantOffsets, ForgetWhatIsGone) {
  for (int64_t i = 0; i < 1000; ++i) {
    const at::Tensor offsets = at::tensor({int64_t{0}, i});
    EXPECT_FALSE(ConstantOffsets::longest_row(offsets, true));
    ConstantOffsets::add(offsets);
    EXPECT_EQ(ConstantOffsets::longest_row(offsets, true), i);
  }
}

}  // namespace
}  // namespace topomask::ops
