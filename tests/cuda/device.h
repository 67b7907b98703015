#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "support/devices.h"
#include "support/poisoned_memory.h"
#include "topomask/topomask.h"

namespace topomask::testing {

/// A suite that is skipped, saying so, where there is no GPU or the library was built without kernels for it.
class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here: this runs on a machine with one";
    poison_.emplace(gpu_);
  }
  void TearDown() override { poison_.reset(); }
  const at::Device gpu_{at::kCUDA, 0};

 private:
  std::optional<PoisonedMemory> poison_;
};

}  // namespace topomask::testing
