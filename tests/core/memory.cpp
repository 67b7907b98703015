#include "topomask/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

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
  void SetUp() override {
    release_kept_memory();
    set_kept_memory_limit(int64_t{1} << 30);  // tests run without the cache, see support/poisoned_memory.h
  }
  void TearDown() override {
    release_kept_memory();
    set_kept_memory_limit(limit_);
  }

 private:
  const int64_t limit_ = kept_memory_limit();
};

TEST_F(KeptMemory, IsThatOfAFreedLargeResult) {
  const void* first = bytes(3 * kMegabyte).data_ptr();
  EXPECT_EQ(kept_memory(), 3 * kMegabyte);
  const at::Tensor second = recycled_empty({kMegabyte * 5 / 8, 4}, at::TensorOptions(at::kByte));
  EXPECT_EQ(second.data_ptr(), first) << "five sixths of a block fit it";
  EXPECT_EQ(kept_memory(), 0);
  EXPECT_EQ(second.sizes(), at::IntArrayRef({kMegabyte * 5 / 8, 4}));
}

TEST_F(KeptMemory, IsGivenToOneResultAtATimeWhenThreadsShareIt) {
  std::vector<std::thread> threads;
  std::array<bool, 4> whole{};
  for (uint8_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      whole[thread] = true;
      for (int i = 0; i < 50; ++i) {
        const at::Tensor mine = bytes(kMegabyte + i % 3 * kMegabyte / 8);
        uint8_t* data = mine.mutable_data_ptr<uint8_t>();
        for (int64_t at = 0; at < mine.numel(); at += 4096) data[at] = thread;
        for (int64_t at = 0; at < mine.numel(); at += 4096) whole[thread] = whole[thread] && data[at] == thread;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    set_kept_memory_limit((i % 4) * kMegabyte);
    if (i % 5 == 0) release_kept_memory();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(whole, (std::array{true, true, true, true}));
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
  EXPECT_EQ(kept_memory_limit(), 5 * kMegabyte);
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
