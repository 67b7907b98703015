#include <gtest/gtest.h>

#include <cmath>

#include "output.h"
#include "report/chart.h"
#include "report/statistics.h"

using namespace topomask::apps;

TEST(Statistics, SpreadIsTheSampleDeviation) {
  EXPECT_EQ(spread({}).count, 0);
  EXPECT_EQ(spread({0.5}).deviation, 0);
  EXPECT_NEAR(spread({1, 2, 3}).deviation, 1, 1e-12);
}

TEST(Statistics, QuantilesOfStudentsDistribution) {
  EXPECT_NEAR(student_quantile(1), 12.706, 1e-3);
  EXPECT_NEAR(student_quantile(4), 2.776, 1e-3);
  EXPECT_NEAR(student_quantile(2.5), 3.558, 0.1);  // between entries of the table, a little high
  EXPECT_NEAR(student_quantile(20), 2.086, 1e-3);
  EXPECT_NEAR(student_quantile(1e6), 1.960, 1e-3);
}

TEST(Statistics, SeedsDecideWhereThereAreSome) {
  const Comparison clear = compare({0.80, 0.81, 0.80}, {0.70, 0.71, 0.70}, 100);
  EXPECT_EQ(clear.by, "seeds");
  EXPECT_FALSE(clear.within_noise);
  EXPECT_NEAR(clear.difference, 0.1, 1e-12);
  EXPECT_NEAR(clear.noise, 2.776 * std::sqrt(2 * 1.0 / 30000 / 3), 1e-4);
  EXPECT_TRUE(compare({0.80, 0.90, 0.70}, {0.79, 0.71, 0.85}, 100000).within_noise);
}

TEST(Statistics, ASingleRunBorrowsTheSpreadOfTheOther) {
  const Comparison found = compare({0.80, 0.82, 0.84}, {0.70}, 1000000);
  EXPECT_EQ(found.by, "seeds");
  EXPECT_NEAR(found.noise, 4.303 * 0.02 * std::sqrt(4.0 / 3), 1e-3);
}

TEST(Statistics, TestImagesDecideForSingleRunsAndNothingWithoutThem) {
  const Comparison small = compare({0.80}, {0.79}, 1000), large = compare({0.80}, {0.75}, 10000);
  EXPECT_EQ(small.by, "test images");
  EXPECT_TRUE(small.within_noise);
  EXPECT_FALSE(large.within_noise);
  EXPECT_TRUE(compare({0.9}, {0.1}, 0).within_noise);
  EXPECT_EQ(compare({0.9}, {0.1}, 0).by, "");
}

TEST(Charts, TicksAreRoundAndInside) {
  EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(-1, 1, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
}

TEST(Charts, AreDrawnOfNothingAndOfWhatIsNotFinite) {
  EXPECT_NE(line_chart({}, {}).find("<svg"), std::string::npos);
  const std::string svg = line_chart({{{{0, 1}, {1, NAN}, {2, 3}}, "red"}}, {});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(dot_chart({}, {}).find("<svg"), std::string::npos);
  EXPECT_NE(bar_chart({}, "none").find("<svg"), std::string::npos);
}

TEST(Charts, ShowTheLabelAtTheirEndWhole) {
  const ChartOptions options;
  const std::string svg = line_chart({{{{0, 1}, {12000, 3}}, "red"}}, options);
  const size_t label = svg.find("\" text-anchor=\"middle\">12k</text>");
  ASSERT_NE(label, std::string::npos);
  const double x = std::stod(svg.substr(svg.rfind("<text x=\"", label) + 9));
  constexpr double kHalfOfLongest = 6 * 6.5 / 2;  // such as 12.35k
  EXPECT_LE(x + kHalfOfLongest, options.width);
}

TEST(Output, IsForPeopleUnlessJsonIsAsked) {
  EXPECT_EQ(as_text({{"nodes", 1234567}, {"error", 0.01234567}, {"sparse", true}}),
            "nodes   1 234 567\nerror   0.01235\nsparse  yes\n");
  EXPECT_EQ(as_text(Json::array({{{"class", "a"}, {"n", 5}}, {{"class", "bcdefg"}, {"n", 10}}})),
            "class    n\na        5\nbcdefg  10\n");
  EXPECT_EQ(as_cell(Json::array({1, 2})), "1, 2");
}
