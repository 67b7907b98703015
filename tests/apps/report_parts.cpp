#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/files.h"
#include "figure.h"
#include "output.h"
#include "report/chart.h"
#include "report/runs.h"
#include "report/sections.h"
#include "report/statistics.h"
#include "topomask/config.h"
#include "train/metrics.h"

using namespace topomask::apps;
using topomask::MetricsLog;
using topomask::RunConfig;
using topomask::testing::TemporaryFolder;

namespace {

/// The folder of a run on one fold of a TU set that was tested once; the data are not there.
std::string write_run(const TemporaryFolder& folder, const std::string& name, const std::string& data, int64_t fold,
                      double accuracy, const std::string& mask = "frequency") {
  RunConfig config;
  config.name = "gkat";
  config.task = "graphs";
  config.graph_data.kind = "tu";
  config.graph_data.path = data;
  config.graph_data.splits = "somewhere/" + data + "_splits.json";
  config.graph_data.fold = fold;
  config.graph_model.mask = mask;
  const std::string run = folder / name;
  topomask::testing::write_file(run + "/config.json", to_json(config));
  MetricsLog(run).write(topomask::EvalMetrics{.step = 1, .split = "test", .loss = 0, .accuracy = accuracy});
  return run;
}

}  // namespace

TEST(ReportRuns, FoldsAreRepetitionsOnOneDataSetOnly) {
  const TemporaryFolder folder;
  const RunCollection runs =
      read_runs({write_run(folder, "a", "tu/ENZYMES", 0, 0.5), write_run(folder, "b", "tu/PROTEINS", 0, 0.7),
                 write_run(folder, "c", "tu/ENZYMES", 1, 0.6), write_run(folder, "d", "tu/PROTEINS", 1, 0.8)});
  ASSERT_EQ(runs.groups.size(), 2U);
  EXPECT_EQ(runs.groups[0].label, "gkat+frequency on PROTEINS");
  EXPECT_EQ(runs.groups[1].label, "gkat+frequency on ENZYMES");
  EXPECT_NEAR(runs.groups[0].accuracy().mean, 0.75, 1e-12);
  EXPECT_NEAR(runs.groups[1].accuracy().mean, 0.55, 1e-12);
  EXPECT_EQ(runs.groups[0].seeds(), "2 runs");  // of one seed, on two folds
}

TEST(ReportRuns, WhereDataLieAndWhetherTheyArePackedDoesNotMatter) {
  const TemporaryFolder folder;
  const RunCollection runs =
      read_runs({write_run(folder, "a", "tu/ENZYMES.zip", 0, 0.5), write_run(folder, "b", "/there/ENZYMES/", 1, 0.6),
                 write_run(folder, "c", "ENZYMES", 2, 0.7)});
  ASSERT_EQ(runs.groups.size(), 1U);
  EXPECT_EQ(runs.groups[0].runs.size(), 3U);
  EXPECT_EQ(runs.groups[0].label, "gkat+frequency");
}

TEST(ReportRuns, AreComparedFoldByFold) {
  const TemporaryFolder folder;
  std::vector<std::string> folders;
  for (int64_t fold = 0; fold < 3; ++fold) {  // the folds differ by ten points, the variants by one
    const auto number = static_cast<double>(fold);
    const double accuracy = 0.5 + 0.1 * number;
    folders.push_back(write_run(folder, "a" + std::to_string(fold), "ENZYMES", fold, accuracy));
    folders.push_back(
        write_run(folder, "b" + std::to_string(2 - fold), "ENZYMES", fold, accuracy + 0.01 + 1e-4 * number, "series"));
  }
  const RunCollection runs = read_runs(folders);
  ASSERT_EQ(runs.groups.size(), 2U);
  const Comparison found = compare(runs.groups[0].results(), runs.groups[1].results());
  EXPECT_EQ(found.test, Comparison::Test::paired);
  EXPECT_NEAR(found.difference, 0.0101, 1e-9);
  EXPECT_TRUE(found.beyond_noise());
}

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

TEST(Statistics, SeedsThatMatchAreComparedOneByOne) {
  // The seeds vary by ten points, the differences by a tenth of one: only a paired test sees it.
  const std::vector<SeedResult> a{{0, 0.80}, {1, 0.90}, {2, 0.70}}, b{{2, 0.690}, {0, 0.791}, {1, 0.889}};
  const Comparison found = compare(a, b);
  EXPECT_EQ(found.test, Comparison::Test::paired);
  EXPECT_NEAR(found.difference, 0.01, 1e-12);
  EXPECT_NEAR(found.noise, 4.303 * 0.001 / std::sqrt(3), 1e-5);
  EXPECT_TRUE(found.beyond_noise());
  EXPECT_TRUE(compare(b, a).beyond_noise());
  EXPECT_LT(compare(b, a).difference, 0);
}

TEST(Statistics, OtherSeedsAreComparedByWelch) {
  const Comparison clear = compare({{0, 0.80}, {1, 0.81}, {2, 0.80}}, {{3, 0.70}, {4, 0.71}, {5, 0.70}});
  EXPECT_EQ(clear.test, Comparison::Test::welch);
  EXPECT_TRUE(clear.beyond_noise());
  EXPECT_NEAR(clear.difference, 0.1, 1e-12);
  EXPECT_NEAR(clear.noise, 2.776 * std::sqrt(2 * 1.0 / 30000 / 3), 1e-4);
  const Comparison vague = compare({{0, 0.80}, {1, 0.90}, {2, 0.70}}, {{0, 0.79}, {1, 0.71}, {3, 0.85}});
  EXPECT_EQ(vague.test, Comparison::Test::welch);
  EXPECT_FALSE(vague.beyond_noise());
}

TEST(Statistics, OneSeedAllowsNoClaim) {
  const std::vector<SeedResult> one{{0, 0.99}}, other{{0, 0.10}}, three{{0, 0.2}, {1, 0.21}, {2, 0.22}};
  EXPECT_FALSE(compare(one, other).judged());
  EXPECT_FALSE(compare(one, other).beyond_noise());
  EXPECT_NEAR(compare(one, other).difference, 0.89, 1e-12);
  EXPECT_FALSE(compare(three, one).judged());
  EXPECT_FALSE(compare({{0, 0.9}, {0, 0.91}}, three).judged()) << "one seed, twice";
  EXPECT_FALSE(compare({{0, 0.9}, {1, 0.9}}, {{0, 0.8}, {1, 0.8}}).judged()) << "no spread to judge by";
  EXPECT_FALSE(compare({}, three).judged());
}

TEST(Statistics, ALossBeyondNoiseIsShownAsWorseAndAGainAsBetter) {
  const auto group = [](const char* label, const std::vector<double>& accuracies) {
    RunGroup made{.label = label};
    for (size_t seed = 0; seed < accuracies.size(); ++seed) {
      RunRecord run{.finished = true, .accuracy = accuracies[seed]};
      run.config.train.seed = seed;
      made.runs.push_back(run);
    }
    return made;
  };
  const RunCollection runs{.split = "test",
                           .groups = {group("best", {0.90, 0.91, 0.90}), group("near", {0.90, 0.89, 0.91}),
                                      group("last", {0.70, 0.71, 0.69})}};
  const std::string body = accuracy_section(runs).body;
  const auto count = [&](const std::string& part) {
    int64_t found = 0;
    for (size_t at = 0; (at = body.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  // The two near each other are within noise; both are better than the last, which is worse than both.
  EXPECT_EQ(count("<td class=\"worse\" title=\"beyond ± "), 2) << body;
  EXPECT_EQ(count("<td class=\"better\" title=\"beyond ± "), 2) << body;
  EXPECT_EQ(count("<td class=\"noise\" title=\"within ± "), 2) << body;
  EXPECT_EQ(count("class=\"worse\"") + count("class=\"better\""), 4) << body;
  for (const auto& [kind, sign] : {std::pair{"worse", '-'}, {"better", '+'}}) {
    const std::string start = std::string("<td class=\"") + kind + "\" title=\"";
    for (size_t at = 0; (at = body.find(start, at)) != std::string::npos; ++at) {
      EXPECT_EQ(body[body.find("\">", at) + 2], sign) << body.substr(at, 60);
    }
  }
  const std::string styles = page("", "", {});
  EXPECT_NE(styles.find("td.worse { color: var(--bad); }"), std::string::npos);
  EXPECT_NE(styles.find("td.better { color: var(--good);"), std::string::npos);
  EXPECT_EQ(styles.find("td.worse { color: var(--good)"), std::string::npos);
}

TEST(Figures, HaveATitleCaptionsAndNumbers) {
  const ColourScale scale = scale_for(at::tensor({0.0, 0.001, 2.0}));
  EXPECT_TRUE(scale.logarithmic);
  ASSERT_EQ(scale.ticks().size(), 5);
  EXPECT_EQ(scale.ticks().back().text, "2");
  EXPECT_EQ(scale.ticks().front().text, "<= 0.0002");
  const at::Tensor bright = scale.brightness(at::tensor({-1.0, 0.0, 0.02, 2.0}, at::kDouble));
  EXPECT_NEAR(bright[2].item<double>(), 0.5, 1e-6);
  EXPECT_EQ(bright[0].item<double>(), 0);
  EXPECT_EQ(bright[3].item<double>(), 1);
  EXPECT_FALSE(scale_for(at::tensor({1.0, 2.0})).logarithmic);
  const at::Tensor image = at::zeros({3, 10, 10}, at::kByte);
  const at::Tensor with = draw_figure({{image, "one"}, {image, "two"}}, {.title = "Rows", .zoom = 4}, &scale);
  const at::Tensor without = draw_figure({{image, "one"}, {image, "two"}}, {.title = "Rows", .zoom = 4});
  EXPECT_GT(with.size(2), without.size(2));
  EXPECT_LT(with.slice(1, 0, 30).min().item<int64_t>(), 100) << "a title";
  EXPECT_EQ(draw_figure({{image, ""}}, {.title = ""}).dim(), 3);
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

TEST(Charts, OfOneValueAreFinite) {
  for (const double x : {0.0, 25.0, -3.0}) {
    const std::string svg = line_chart({{{{x, 2}}, "red"}, {{{x, 2}, {x, 2}}, "blue"}}, {});
    EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
    EXPECT_NE(svg.find("<circle cx=\"254.0\""), std::string::npos) << svg;  // in the middle
  }
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
