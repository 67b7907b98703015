#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <optional>

#include "support/poisoned_memory.h"

namespace {

/// What every test starts from: the same random numbers, whichever tests ran before it, and poisoned memory.
class FreshStart final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override {
    at::manual_seed(20260101);
    poison_.emplace();
  }
  void OnTestEnd(const ::testing::TestInfo&) override { poison_.reset(); }

  std::optional<topomask::testing::PoisonedMemory> poison_;
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::UnitTest::GetInstance()->listeners().Append(new FreshStart);
  return RUN_ALL_TESTS();
}
