#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/radar_files.h"
#include "support/compare.h"
#include "topomask/data/video.h"

namespace topomask::testing {
namespace {

VideoOptions radar_clip_options(const std::string& path) {
  VideoOptions options{.kind = "radhar", .path = path, .frames = 2, .image_size = 8};
  options.window = 4;
  options.stride = 2;
  return options;
}

TEST(RadarClips, CountPointsInVoxels) {
  const TemporaryFolder folder;
  const VideoPtr test = open_videos(radar_clip_options(small_radar(folder).write()), Split::test);
  ASSERT_EQ(test->size(), 10);
  EXPECT_EQ(test->clip_shape(), (std::array<int64_t, 4>{2, 15, 8, 8}));
  EXPECT_EQ(test->classes()[4], "walk");
  for (int64_t clip = 0; clip < test->size(); ++clip) {
    const VideoBatch batch = test->batch({clip});
    EXPECT_EQ(batch.labels.item<int64_t>(), clip / 2);
    // The same by a slower way, from the points as the file has them.
    at::Tensor expected = at::full({2, 15, 8, 8}, 128, at::kLong);
    const int64_t recording = 10 + clip / 2, start = clip % 2 * 2;
    for (int64_t f = start; f < start + 4; ++f) {
      const double y = static_cast<double>(recording) / 16, z = static_cast<double>(f) / 8;
      const auto column = static_cast<int64_t>((y + 1.5) / 3 * 8), row = 7 - static_cast<int64_t>((z + 1.5) / 3 * 8);
      const int64_t step = (f - start) / 2, group = f % 2 == 0 ? 2 : 1;
      expected[step][static_cast<int64_t>((1 - .25) / 3 * 5)][row][column] += 48;
      expected[step][5 * group + static_cast<int64_t>((1.5 - .25) / 3 * 5)][row][column] += 48;
    }
    EXPECT_TRUE(at::equal(batch.clips[0].to(at::kLong), expected.clamp_max(255))) << clip;
  }
}

TEST(RadarClips, HoldOutWholeRecordings) {
  const TemporaryFolder folder;
  VideoOptions options = radar_clip_options(small_radar(folder).write());
  EXPECT_EQ(open_videos(options, Split::train)->size(), 20);
  EXPECT_ERROR(open_videos(options, Split::validation), "validation must be > 0 for a validation split, got 0");
  options.validation = 5;
  const VideoPtr train = open_videos(options, Split::train), held = open_videos(options, Split::validation);
  EXPECT_EQ(train->size(), 10);
  ASSERT_EQ(held->size(), 10);
  std::vector<int64_t> seen(5);
  for (int64_t i = 0; i < 10; ++i) ++seen[static_cast<size_t>(held->batch({i}).labels.item<int64_t>())];
  EXPECT_EQ(seen, (std::vector<int64_t>(5, 2)));  // both windows of one recording of each activity
  for (const int64_t few : {1, 2}) {              // less than half a recording of an activity
    options.validation = few;
    EXPECT_EQ(open_videos(options, Split::train)->size(), 10) << few;
    EXPECT_EQ(open_videos(options, Split::validation)->size(), 10) << few;
  }
  options.validation = 5;
  options.limit = 3;
  EXPECT_EQ(open_videos(options, Split::train)->size(), 3);
  options.validation = 10;
  EXPECT_ERROR(open_videos(options, Split::train), "validation must be below the 10 training recordings, got 10");
  options.validation = 0;
  options.frames = 5;
  EXPECT_ERROR(open_videos(options, Split::train), "window must be at least frames, 5");
  options.window = 7;
  EXPECT_ERROR(open_videos(options, Split::train), "no recording of the train split has 7 frames");
}

}  // namespace
}  // namespace topomask::testing
