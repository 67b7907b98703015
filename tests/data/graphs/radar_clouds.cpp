#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "data/radar_files.h"
#include "support/compare.h"

namespace topomask::testing {
namespace {

GraphDataOptions radar_options(const std::string& path) {
  return {.kind = "radhar", .path = path, .validation_fraction = 0.5, .neighbours = 2, .window = 4, .stride = 2};
}

TEST(RadarClouds, AreWindowsOfRecordings) {
  const TemporaryFolder folder;
  const auto [set, split] = open_graphs(radar_options(small_radar(folder).write()));
  EXPECT_EQ(set.name, "radar");
  ASSERT_EQ(set.size(), 30);  // of each recording frames 0 to 3 and 2 to 5
  EXPECT_EQ(set.num_features(), 6);
  EXPECT_EQ(set.vectors, 1);
  EXPECT_EQ(set.classes, (std::vector<std::string>{"boxing", "jack", "jump", "squats", "walk"}));
  EXPECT_TRUE(at::equal(set.offsets, at::arange(0, 248, 8)));
  for (int64_t g = 0; g < set.size(); ++g) {
    EXPECT_EQ(set.labels[g].item<int64_t>(), g / 2 % 5);
    for (int64_t i = 0; i < 8; ++i) {
      const int64_t recording = g / 2, frame = g % 2 * 2 + i / 2;
      const at::Tensor row = set.features[8 * g + i];
      const bool moves = i % 2 == 1;
      const double velocity = !moves ? 0 : frame % 2 == 0 ? .5 : -.5;
      EXPECT_NEAR(row[0].item<double>(), moves ? 0 : -.5, 1e-6);
      EXPECT_NEAR(row[1].item<double>(), static_cast<double>(recording) / 16, 1e-6);
      EXPECT_NEAR(row[2].item<double>(), static_cast<double>(frame) / 8, 1e-6);
      EXPECT_NEAR(row[3].item<double>(), velocity, 1e-6);
      EXPECT_NEAR(row[4].item<double>(), moves ? 1 : 0, 1e-6);
      EXPECT_NEAR(row[5].item<double>(), static_cast<double>(i / 2) / 2 - 1, 1e-6);
    }
  }
  EXPECT_EQ(split.test.size(), 10U);
  EXPECT_EQ(split.validation.size(), 10U);  // one of the two recordings of each activity
  EXPECT_EQ(split.train.size(), 10U);
}

TEST(RadarClouds, HaveNoRecordingInTwoSplits) {
  const TemporaryFolder folder;
  GraphDataOptions options = radar_options(small_radar(folder, 25, 12).write());
  options.validation_fraction = 0.25;
  options.stride = 1;
  const GraphSplit split = open_graphs(options).split;
  std::array<std::set<int64_t>, 3> recordings;
  size_t part = 0;
  for (const auto* places : {&split.train, &split.validation, &split.test}) {
    for (const int64_t place : *places) recordings[part].insert(place / 9);  // nine windows each
    ++part;
  }
  EXPECT_EQ(recordings[0].size() + recordings[1].size() + recordings[2].size(), 25U);
  EXPECT_EQ(recordings[1].size(), 5U);
}

TEST(RadarClouds, KeepWhatMovesWhereAllIsTooMuch) {
  const TemporaryFolder folder;
  GraphDataOptions options = radar_options(small_radar(folder).write());
  options.points = 5;
  const GraphSet set = open_graphs(options).set;
  EXPECT_EQ(set.num_nodes(), 30 * 5);
  EXPECT_TRUE(((set.features.select(1, 3) != 0).view({30, 5}).sum(1) == 4).all().item<bool>());
  EXPECT_TRUE(at::equal(open_graphs(options).set.features, set.features));
  options.seed = 1;
  EXPECT_FALSE(at::equal(open_graphs(options).set.features, set.features));
}

TEST(RadarClouds, ConnectNearestNeighboursInsideACloud) {
  const TemporaryFolder folder;
  const GraphSet set = open_graphs(radar_options(small_radar(folder).write())).set;
  const at::Tensor near = at::cat({set.features.narrow(1, 0, 3), set.features.narrow(1, 5, 1)}, 1).to(at::kDouble);
  for (const int64_t g : {0, 7, 29}) {
    const at::Tensor points = near.narrow(0, 8 * g, 8);
    const Graph expected = Graph::knn(points, {.k = 2}), cloud = induced_subgraph(set.graph, at::arange(8) + 8 * g);
    EXPECT_TRUE(at::equal(cloud.offsets(), expected.offsets()));
    EXPECT_TRUE(at::equal(cloud.columns(), expected.columns()));
  }
  EXPECT_NO_THROW(take(set, {0, 29}));  // which refuses edges between graphs
}

TEST(RadarClouds, AreRefusedByArray) {
  const TemporaryFolder folder;
  const auto fails = [&](const NpzFile& file, const std::string& fault) {
    EXPECT_ERROR(open_graphs(radar_options(file.write())), "open_graphs: " + folder / "radar.npz" + ": " + fault);
  };
  fails(small_radar(folder).add("y", std::vector<int64_t>(15, 5)),
        "array \"y\": must be from 0 to 4, got 5 at index 0");
  fails(small_radar(folder).add("is_test", std::vector<int64_t>(14, 0)),
        "array \"is_test\": must be as long as y, 15, got 14");
  fails(small_radar(folder).add("npts", std::vector<int64_t>(15, 11)),
        "array \"points\": must have as many rows as npts counts, 165, got 180");
  fails(small_radar(folder).add("frame", std::vector<int64_t>(179, 0)),
        "array \"frame\": must be as long as points, 180, got 179");
  std::vector<int64_t> frames(180, 3);
  frames[20] = 2;
  fails(small_radar(folder).add("frame", frames),
        "array \"frame\": must ascend in each recording, got 2 after 3 at index 20");
  fails(small_radar(folder).add_halves("points", "(180, 4)", std::vector<float>(720)),
        "array \"points\": must have 5 columns, got f2[180, 4]");
  fails(small_radar(folder).add_halves("points", "(900,)", std::vector<float>(900)),
        "array \"points\": must have two dimensions, got f2[900]");
  fails(small_radar(folder).add_halves("points", "(181, 5)", std::vector<float>(900)),
        "array \"points\": f2[181, 5] needs 1810 bytes, the member holds 1800");
  fails(small_radar(folder).add_halves("points", "(180, 5)", std::vector<float>(900, 1e6F)),
        "array \"points\": must be finite in float32, got inf at index 0");
  fails(small_radar(folder).replace("points", "'fortran_order': False", "'fortran_order': True "),
        "array \"points\": must be in C order, got Fortran order");
  GraphDataOptions options = radar_options(small_radar(folder).write());
  options.window = 7;
  EXPECT_ERROR(open_graphs(options), "radar.npz: no recording has data.window = 7 frames");
}

}  // namespace
}  // namespace topomask::testing
