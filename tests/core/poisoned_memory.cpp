#include "support/poisoned_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

#include "core/recycled.h"
#include "support/devices.h"
#include "topomask/memory.h"

namespace topomask {
namespace {

bool all_nan(const at::Tensor& x) {
  return x.isnan().all().item<bool>();
}

TEST(PoisonedMemory, IsWhatEveryTestRunsIn) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    EXPECT_TRUE(all_nan(at::empty({63}, dtype))) << dtype;
    EXPECT_TRUE(all_nan(recycled_empty({1 << 20}, at::TensorOptions(dtype)))) << dtype;
    // Once more: a block that was freed is poisoned again.
    recycled_empty({1 << 20}, at::TensorOptions(dtype)).zero_();
    EXPECT_TRUE(all_nan(recycled_empty({1 << 20}, at::TensorOptions(dtype)))) << dtype;
  }
  EXPECT_TRUE(at::empty({63}, at::kLong).eq(-1).all().item<bool>());
  EXPECT_TRUE(at::zeros({63}).eq(0).all().item<bool>());
}

TEST(PoisonedMemory, LeavesTheAllocatorAsItWas) {
  c10::Allocator* allocator = c10::GetAllocator(at::kCPU);
  const int64_t limit = kept_memory_limit();
  set_kept_memory_limit(12345);
  std::optional<at::Tensor> outlives;
  {
    const testing::PoisonedMemory poison;
    EXPECT_EQ(kept_memory_limit(), 0);
    outlives = at::empty({7});
  }
  EXPECT_EQ(c10::GetAllocator(at::kCPU), allocator);
  EXPECT_EQ(kept_memory_limit(), 12345);
  set_kept_memory_limit(limit);
  outlives->resize_({1000});
}

TEST(PoisonedMemory, FillsTensorsOnAGpu) {
  if (!testing::has_cuda()) GTEST_SKIP() << "no GPU here: this runs on a machine with one";
  const at::Device gpu(at::kCUDA, 0);
  const bool before = at::globalContext().deterministicAlgorithms();
  {
    const testing::PoisonedMemory poison(gpu);
    EXPECT_TRUE(all_nan(at::empty({63}, gpu)));
    EXPECT_TRUE(all_nan(at::empty_like(at::ones({9, 7}, gpu))));
  }
  EXPECT_EQ(at::globalContext().deterministicAlgorithms(), before);
}

}  // namespace
}  // namespace topomask
