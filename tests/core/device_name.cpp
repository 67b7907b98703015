#include "core/device_name.h"

#include <gtest/gtest.h>

using topomask::is_device_name;

TEST(DeviceName, IsCpuOrCudaWithANumber) {
  for (const char* name : {"cpu", "cuda", "cuda:0", "cuda:15"}) EXPECT_TRUE(is_device_name(name)) << name;
  for (const char* name : {"", "gpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:100", "cuda0", "CUDA"}) {
    EXPECT_FALSE(is_device_name(name)) << name;
  }
}
