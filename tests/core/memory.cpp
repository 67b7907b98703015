#include "topomask/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/recycled.h"
#include "support/compare.h"

namespace topomask {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;

at::Tensor bytes(int64_t count) {
  return recycled_empty({count}, at::TensorOptions(at::kByte));
}

class KeptMemory : public ::testing::Test {
 protected:
  void SetUp() override { release_kept_memory(); }
  void TearDown() override {
    release_kept_memory();
    set_kept_memory_limit(int64_t{1} << 30);
  }
};

TEST_F(KeptMemory, IsThatOfAFreedLargeResult) {
  const void* first = bytes(3 * kMegabyte).data_ptr();
  EXPECT_EQ(kept_memory(), 3 * kMegabyte);
  const at::Tensor second = recycled_empty({kMegabyte * 5 / 8, 4}, at::TensorOptions(at::kByte));
  EXPECT_EQ(second.data_ptr(), first) << "five sixths of a block fit it";
  EXPECT_EQ(kept_memory(), 0);
  EXPECT_EQ(second.sizes(), at::IntArrayRef({kMegabyte * 5 / 8, 4}));
}

TEST_F(KeptMemory, IsNotGivenToMuchSmallerResultsNorTakenFromSmallOnes) {
  bytes(8 * kMegabyte);
  const at::Tensor other = bytes(2 * kMegabyte), small = bytes(kMegabyte - 1);
  EXPECT_EQ(kept_memory(), 8 * kMegabyte);
}

TEST_F(KeptMemory, NeverHasTwoOwners) {
  bytes(4 * kMegabyte);
  const at::Tensor a = bytes(4 * kMegabyte), b = bytes(4 * kMegabyte);
  EXPECT_NE(a.data_ptr(), b.data_ptr());
}

TEST_F(KeptMemory, StaysInsideItsLimitOldestOut) {
  set_kept_memory_limit(5 * kMegabyte);
  { const at::Tensor a = bytes(2 * kMegabyte); }
  { const at::Tensor b = bytes(4 * kMegabyte); }
  EXPECT_EQ(kept_memory(), 4 * kMegabyte);
  bytes(6 * kMegabyte);
  EXPECT_LE(kept_memory(), 5 * kMegabyte);
  set_kept_memory_limit(0);
  bytes(4 * kMegabyte);
  EXPECT_EQ(kept_memory(), 0);
  EXPECT_ERROR(set_kept_memory_limit(-1), "set_kept_memory_limit: bytes must be >= 0, got -1");
}

}  // namespace
}  // namespace topomask
