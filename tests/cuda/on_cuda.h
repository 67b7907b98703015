#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "support/devices.h"
#include "support/poisoned_memory.h"
#include "topomask/topomask.h"

namespace topomask::testing {

/// A suite that is skipped, saying so, where there is no GPU or the library was built without kernels for it.
class OnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_cuda()) GTEST_SKIP() << "no GPU here: this runs on a machine with one";
    poison_.emplace(cuda_);
  }
  void TearDown() override { poison_.reset(); }
  const at::Device cuda_{at::kCUDA, 0};

 private:
  std::optional<PoisonedMemory> poison_;
};

}  // namespace topomask::testing
