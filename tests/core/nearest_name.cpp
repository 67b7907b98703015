#include "core/nearest_name.h"

#include <gtest/gtest.h>

#include <chrono>

using topomask::nearest_name;

TEST(NearestName, IsTheOneFewestEditsAway) {
  const std::vector<std::string> known{"model", "mode", "train", "data"};
  EXPECT_EQ(nearest_name("modle", known), "model");
  EXPECT_EQ(nearest_name("mdel", known), "model");
  EXPECT_EQ(nearest_name("tarin", known), "train");
  EXPECT_EQ(nearest_name("date", known), "data");
  EXPECT_EQ(nearest_name("model", known), "model");
}

TEST(NearestName, FindsAKeyInTheWrongSection) {
  const std::vector<std::string> known{"model.width", "model.depth", "train.steps"};
  EXPECT_EQ(nearest_name("train.width", known), "model.width");
  EXPECT_EQ(nearest_name("model.widht", known), "model.width");
  EXPECT_EQ(nearest_name("width", known), "model.width");
}

TEST(NearestName, IsNothingWhereTheNearestSharesTooLittle) {
  EXPECT_EQ(nearest_name("xyz", {"model", "train"}), std::nullopt);
  EXPECT_EQ(nearest_name("", {"model"}), std::nullopt);
  EXPECT_EQ(nearest_name("model", {}), std::nullopt);
}

TEST(NearestName, DoesNotReadAKeyOfMegabytesForEachName) {
  std::vector<std::string> known;
  for (int i = 0; i < 60; ++i) known.push_back("model.some_long_name_" + std::to_string(i));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(nearest_name(std::string(4'000'000, 'm'), known), std::nullopt);
  EXPECT_EQ(nearest_name("train." + std::string(4'000'000, '.') + "some_long_name_7", known), "model.some_long_name_7");
#ifdef __SANITIZE_THREAD__
  constexpr auto kMost = std::chrono::seconds(20);
#else
  constexpr auto kMost = std::chrono::seconds(2);
#endif
  EXPECT_LT(std::chrono::steady_clock::now() - start, kMost);  // in place of a table of 5·10⁹ cells
}
