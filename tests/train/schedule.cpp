#include "topomask/train/schedule.h"

#include <gtest/gtest.h>

namespace topomask {
namespace {

TEST(Schedule, WarmsUpStaysAndFallsAsACosine) {
  TrainOptions o;
  o.learning_rate = 1;
  o.final_learning_rate = 0.1;
  o.warmup_steps = 4;
  o.constant_steps = 3;
  const int64_t steps = 17;
  EXPECT_DOUBLE_EQ(learning_rate(o, 0, steps), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(o, 3, steps), 1);
  EXPECT_DOUBLE_EQ(learning_rate(o, 6, steps), 1);
  EXPECT_LT(learning_rate(o, 7, steps), 1);
  EXPECT_DOUBLE_EQ(learning_rate(o, 11, steps), 0.55);  // halfway
  EXPECT_DOUBLE_EQ(learning_rate(o, 16, steps), 0.1);
  for (int64_t s = 7; s < 16; ++s) EXPECT_GT(learning_rate(o, s, steps), learning_rate(o, s + 1, steps));
}

TEST(Schedule, StepsDownAtOnceWhereAskedTo) {
  TrainOptions o;
  o.learning_rate = 3e-4;
  o.final_learning_rate = 1e-4;
  o.constant_steps = 1000;
  o.schedule = "step";
  EXPECT_DOUBLE_EQ(learning_rate(o, 0, 100000), 3e-4);
  EXPECT_DOUBLE_EQ(learning_rate(o, 999, 100000), 3e-4);
  EXPECT_DOUBLE_EQ(learning_rate(o, 1000, 100000), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(o, 99999, 100000), 1e-4);
}

TEST(Schedule, ARunShorterThanItsWarmUpNeverFalls) {
  TrainOptions o;
  o.warmup_steps = 10;
  EXPECT_DOUBLE_EQ(learning_rate(o, 4, 5), o.learning_rate / 2);
  o.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate(o, 0, 1), o.final_learning_rate);
}

}  // namespace
}  // namespace topomask
