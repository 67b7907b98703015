#include "core/nearest_name.h"

#include <gtest/gtest.h>

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
