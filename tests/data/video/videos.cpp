#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "data/episodes/made_episode.h"
#include "data/files.h"
#include "data/video/names.h"
#include "support/compare.h"
#include "topomask/data/image.h"
#include "topomask/data/video.h"

namespace topomask::testing {
namespace {

/// Images [N, 1, 4, 4] whose pixels are all i + 1, in two classes.
DatasetPtr plain_images(int64_t count) {
  const at::Tensor values = at::arange(1, count + 1).to(at::kByte).reshape({count, 1, 1, 1});
  return memory_dataset("plain", values.expand({count, 1, 4, 4}).contiguous(), at::arange(count).remainder(2),
                        {"a", "b"});
}

/// Row and column of the image's corner in each frame.
std::vector<std::pair<int64_t, int64_t>> corners(const at::Tensor& clip, int64_t value) {
  std::vector<std::pair<int64_t, int64_t>> result;
  for (int64_t t = 0; t < clip.size(0); ++t) {
    const at::Tensor places = (clip[t][0] == value).nonzero();
    EXPECT_EQ(places.size(0), 16);
    const auto first = std::get<0>(places.min(0));
    result.emplace_back(first[0].item<int64_t>(), first[1].item<int64_t>());
  }
  return result;
}

TEST(MovingClips, MoveAsTheirLabelSays) {
  constexpr int64_t kCount = 60;
  const VideoOptions options{.frames = 9, .image_size = 24, .label = "motion", .seed = 3};
  const VideoPtr videos = moving_clips(plain_images(kCount), options);
  ASSERT_EQ(videos->size(), kCount);
  EXPECT_EQ(videos->clip_shape(), (std::array<int64_t, 4>{9, 1, 24, 24}));
  std::vector<int64_t> seen(6);
  for (int64_t i = 0; i < kCount; ++i) {
    const VideoBatch batch = videos->batch({i});
    const auto label = static_cast<size_t>(batch.labels[0].item<int64_t>());
    ++seen[label];
    const auto path = corners(batch.clips[0], i + 1);
    const auto [row, col] = path.front();
    const auto [last_row, last_col] = path.back();
    const std::string& motion = videos->classes()[label];
    if (motion == "right") {
      EXPECT_TRUE(last_col - col >= 9 && last_row == row);
    }
    if (motion == "left") {
      EXPECT_TRUE(col - last_col >= 9 && last_row == row);
    }
    if (motion == "down") {
      EXPECT_TRUE(last_row - row >= 9 && last_col == col);
    }
    if (motion == "up") {
      EXPECT_TRUE(row - last_row >= 9 && last_col == col);
    }
    if (motion.ends_with("clockwise")) {
      // The area that the path goes around, by the sign of which the directions differ (rows point down).
      double area = 0;
      for (size_t t = 0; t + 1 < path.size(); ++t) {
        const double x = static_cast<double>(path[t].second) - 10, y = static_cast<double>(path[t].first) - 10;
        const double u = static_cast<double>(path[t + 1].second) - 10, v = static_cast<double>(path[t + 1].first) - 10;
        area += x * v - u * y;
      }
      EXPECT_TRUE(motion == "clockwise" ? area > 20 : area < -20) << area;
    }
  }
  for (const int64_t count : seen) EXPECT_GT(count, 2);
}

TEST(VideoNames, AreThoseOfTheEnumerators) {
  EXPECT_EQ(kVideoKindNames[VideoKind::synthetic], "synthetic");
  EXPECT_EQ(kVideoKindNames[VideoKind::radhar], "radhar");
  EXPECT_EQ(kMotionLabelNames[MotionLabel::class_], "class");
  EXPECT_EQ(kMotionLabelNames[MotionLabel::both], "both");
  EXPECT_EQ(kEpisodeLabelNames[EpisodeLabel::object], "object");
  EXPECT_ERROR(
      open_videos({.kind = "film"}, Split::train),
      "open_videos: kind must be one of moving, synthetic, frame_folder, video_folder, episodes, radhar, got film");
}

TEST(MovingClips, AreLabelledByClassOrBoth) {
  VideoOptions options{.frames = 4, .image_size = 16, .seed = 5};
  const VideoPtr motion = moving_clips(plain_images(8), options);
  options.label = "class";
  const VideoPtr shown = moving_clips(plain_images(8), options);
  options.label = "both";
  const VideoPtr both = moving_clips(plain_images(8), options);
  EXPECT_EQ(both->classes().size(), 12U);
  EXPECT_EQ(both->classes()[7], "b, left");
  const std::vector<int64_t> all{0, 1, 2, 3, 4, 5, 6, 7};
  const VideoBatch m = motion->batch(all), s = shown->batch(all), b = both->batch(all);
  EXPECT_TRUE(at::equal(b.labels, s.labels * 6 + m.labels));
  EXPECT_TRUE(at::equal(m.clips, b.clips));
  EXPECT_TRUE(at::equal(motion->batch({6, 2}).clips[0], m.clips[6]));  // the same whenever it is read
  EXPECT_FALSE(at::equal(moving_clips(plain_images(8), options, 1)->batch(all).clips, m.clips));
  options.label = "colour";
  EXPECT_ERROR(moving_clips(plain_images(8), options), "moving_clips: label must be class, motion or both, got colour");
  EXPECT_ERROR(moving_clips(plain_images(8), {.image_size = 11}),
               "image_size must be at least 12 for images of 4x4, got 11");
  EXPECT_ERROR(motion->batch({8}), "index must be in [0, 8), got 8");
}

TEST(FrameFolder, ReadsFramesInTheOrderOfTheirNumbers) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& clip, int64_t frames) {
    std::filesystem::create_directories(folder / clip);
    for (int64_t i = 0; i < frames; ++i) {
      write_png(folder / (clip + "/" + std::to_string(i) + ".png"), at::full({3, 6, 6}, 10 * i, at::kByte));
    }
  };
  write("train/run/one", 12);
  write("train/walk/two", 3);
  write("train/walk/three", 1);
  write("val/walk/four", 2);
  const VideoOptions options{.kind = "frame_folder", .path = folder.path().string(), .frames = 4, .image_size = 6};
  const VideoPtr train = open_videos(options, Split::train);
  ASSERT_EQ(train->size(), 3);
  EXPECT_EQ(train->classes(), (std::vector<std::string>{"run", "walk"}));
  const VideoBatch batch = train->batch({0, 1, 2});
  const auto shown = [&](int64_t clip) {
    return batch.clips[clip].select(1, 0).select(1, 0).select(1, 0).to(at::kLong);
  };
  EXPECT_TRUE(at::equal(shown(0), at::tensor({10, 40, 70, 100})));  // frames 1, 4, 7 and 10 of 12
  EXPECT_TRUE(at::equal(shown(1), at::tensor({0, 0, 0, 0})));       // "three" has a single frame
  EXPECT_TRUE(at::equal(shown(2), at::tensor({0, 10, 10, 20})));
  EXPECT_TRUE(at::equal(batch.labels, at::tensor({0, 1, 1})));
  EXPECT_EQ(open_videos(options, Split::test)->batch({0}).labels.item<int64_t>(), 1);
  VideoOptions held = options;
  held.validation = 1;
  EXPECT_EQ(open_videos(held, Split::train)->size(), 2);
  EXPECT_EQ(open_videos(held, Split::validation)->size(), 1);
  held.limit = 1;
  EXPECT_EQ(open_videos(held, Split::train)->size(), 1);
  held.limit = 9;  // more than there are
  EXPECT_EQ(open_videos(held, Split::train)->size(), 2);
  EXPECT_ERROR(open_videos(options, Split::validation), "validation must be > 0 for a validation split");
  held.validation = 3;
  EXPECT_ERROR(open_videos(held, Split::train), "validation must be below the 3 training clips, got 3");
}

TEST(FrameFolder, NamesWhatIsMissing) {
  const TemporaryFolder folder;
  const VideoOptions options{.kind = "frame_folder", .path = folder.path().string(), .frames = 2, .image_size = 4};
  EXPECT_ERROR(open_videos(options, Split::train), "train is not a folder; frame_folder wants train/CLASS/CLIP/*.jpg");
  std::filesystem::create_directories(folder / "train/run");
  EXPECT_ERROR(open_videos(options, Split::train), "train: no folder of frames in its class folders");
  std::filesystem::create_directories(folder / "train/run/one");
  EXPECT_ERROR(open_videos(options, Split::train), "one: no .jpg, .jpeg or .png file in it");
  write_file(folder / "train/run/one/0.png", "not a picture");
  EXPECT_ERROR(open_videos(options, Split::train)->batch({0}), "0.png");
  EXPECT_ERROR(open_videos({.kind = "film"}, Split::train),
               "kind must be one of moving, synthetic, frame_folder, video_folder, episodes, radhar, got film");
  EXPECT_ERROR(open_videos({.frames = 0}, Split::train), "frames must be from 1 to 4096, got 0");
}

TEST(EpisodeClips, HaveAClipForEachCamera) {
  const TemporaryFolder folder;
  EpisodeWriter writer(folder / "a.episodes");
  for (uint64_t seed = 0; seed < 10; ++seed) writer.add(made_episode(seed, 4, 6));
  writer.commit();
  const VideoOptions options{.kind = "episodes", .path = folder.path().string(), .frames = 2, .image_size = 6};
  const VideoPtr train = open_videos(options, Split::train), test = open_videos(options, Split::test);
  EXPECT_EQ(train->classes(), (std::vector<std::string>{"lift", "push"}));
  ASSERT_EQ(train->size(), 16);
  ASSERT_EQ(test->size(), 4);
  const VideoBatch batch = test->batch({1, 2});
  EXPECT_TRUE(at::equal(batch.labels, at::tensor({0, 1})));  // the second camera of episode 8, the first of episode 9
  const Episode eight = made_episode(8, 4, 6);
  const at::Tensor frame = resize_image(eight.rgb[3][1].permute({2, 0, 1}), 6);
  EXPECT_TRUE(at::equal(batch.clips[0][1], frame));
}

TEST(EpisodeClips, HaveNoEpisodeInTwoSplits) {
  const TemporaryFolder folder;
  EpisodeWriter writer(folder / "a.episodes");
  for (uint64_t seed = 0; seed < 10; ++seed) writer.add(made_episode(seed, 4, 6));
  writer.commit();
  VideoOptions options{.kind = "episodes", .path = folder.path().string(), .frames = 1, .image_size = 6};
  options.validation = 3;
  // The episodes of a split, each of which must have its two clips in a row.
  const auto episodes = [&](Split split) {
    const VideoPtr clips = open_videos(options, split);
    std::vector<int64_t> found;
    for (int64_t i = 0; i < clips->size(); ++i) {
      const at::Tensor frame = clips->batch({i}).clips[0][0];
      for (uint64_t seed = 0; seed < 10; ++seed) {
        const at::Tensor shown = made_episode(seed, 4, 6).rgb[2][i % 2].permute({2, 0, 1});
        if (at::equal(frame, resize_image(shown, 6))) found.push_back(static_cast<int64_t>(seed));
      }
    }
    EXPECT_EQ(std::ssize(found), clips->size());
    for (size_t i = 1; i < found.size(); i += 2) EXPECT_EQ(found[i], found[i - 1]);
    return std::set<int64_t>(found.begin(), found.end());
  };
  const std::set<int64_t> train = episodes(Split::train), held = episodes(Split::validation);
  EXPECT_EQ(train.size(), 5U);
  EXPECT_EQ(held.size(), 3U);
  EXPECT_EQ(episodes(Split::test), (std::set<int64_t>{8, 9}));
  std::set<int64_t> all = train;
  all.insert(held.begin(), held.end());
  EXPECT_EQ(all, (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  options.limit = 4;
  EXPECT_EQ(open_videos(options, Split::train)->size(), 4);
  options.validation = 8;
  EXPECT_ERROR(open_videos(options, Split::train), "validation must be below the 8 training episodes, got 8");
  options.validation = 0;
  EXPECT_ERROR(open_videos(options, Split::validation), "validation must be > 0 for a validation split, got 0");
}

TEST(EpisodeClips, MayBeLabelledByTheObjectThatMovesMost) {
  const TemporaryFolder folder;
  EpisodeWriter writer(folder / "a.episodes");
  std::vector<std::string> expected;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Episode episode = made_episode(seed, 3, 6, 3);
    episode.names = {"box 1", "can 12", "soft cube"};
    episode.bodies.narrow(2, 0, 3).zero_();
    const int64_t mover = static_cast<int64_t>(seed * 2 % 3);
    episode.bodies[2][mover][1] = 0.5;
    episode.bodies[1][(mover + 1) % 3][0] = 2.;  // moves more, but comes back
    expected.push_back(std::array{"box", "can", "soft cube"}[static_cast<size_t>(mover)]);
    writer.add(episode);
  }
  writer.commit();
  VideoOptions options{.kind = "episodes", .path = folder.path().string(), .frames = 2, .image_size = 6};
  options.label = "object";
  for (const bool in_memory : {false, true}) {
    options.in_memory = in_memory;
    const VideoPtr train = open_videos(options, Split::train);
    ASSERT_EQ(train->size(), 8);
    EXPECT_EQ(train->classes(), (std::vector<std::string>{"box", "can", "soft cube"}));
    for (int64_t i = 0; i < train->size(); ++i) {
      const auto label = static_cast<size_t>(train->batch({i}).labels.item<int64_t>());
      EXPECT_EQ(train->classes()[label], expected[static_cast<size_t>(i / 2)]);
    }
  }
  options.in_memory = false;
  const VideoBatch decoded = open_videos(options, Split::train)->batch({5, 0});
  options.in_memory = true;
  const VideoBatch kept = open_videos(options, Split::train)->batch({5, 0});
  EXPECT_TRUE(at::equal(kept.clips, decoded.clips));
  EXPECT_TRUE(at::equal(kept.labels, decoded.labels));
  options.label = "motion";
  EXPECT_ERROR(open_videos(options, Split::train), "label must be task or object of episodes, got motion");
  EXPECT_ERROR(open_videos({.kind = "frame_folder", .label = "class"}, Split::train),
               "label must be empty for kind frame_folder, whose clips have one label, got class");
}

TEST(MovingClips, SyntheticOnesNeedNoFiles) {
  const VideoOptions options{.kind = "synthetic",
                             .frames = 4,
                             .image_size = 24,
                             .validation = 5,
                             .seed = 3,
                             .synthetic_train = 30,
                             .synthetic_test = 7,
                             .limit = 11};
  const VideoPtr train = open_videos(options, Split::train), test = open_videos(options, Split::test);
  EXPECT_EQ(train->size(), 11);
  EXPECT_EQ(open_videos(options, Split::validation)->size(), 5);
  EXPECT_EQ(test->size(), 7);
  EXPECT_EQ(test->clip_shape(), (std::array<int64_t, 4>{4, 1, 24, 24}));
  EXPECT_EQ(std::ssize(test->classes()), 6);
  const VideoBatch batch = test->batch({2, 5}), again = open_videos(options, Split::test)->batch({2, 5});
  EXPECT_TRUE(at::equal(batch.clips, again.clips));
  EXPECT_TRUE(at::equal(batch.labels, again.labels));
  EXPECT_FALSE(at::equal(batch.clips[0][0], batch.clips[0][3]));  // it moves
}

}  // namespace
}  // namespace topomask::testing
