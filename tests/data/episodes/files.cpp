#include "data/files.h"

#include <gtest/gtest.h>

#include <thread>

#include "data/episodes/made_episode.h"
#include "support/compare.h"

namespace topomask::testing {
namespace {

void expect_same(const Episode& a, const Episode& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.interval, b.interval);
  EXPECT_EQ(a.names, b.names);
  EXPECT_TRUE(at::equal(a.rgb, b.rgb));
  EXPECT_TRUE(at::equal(a.depth, b.depth));
  EXPECT_TRUE(at::equal(a.ids, b.ids));
  EXPECT_TRUE(at::equal(a.intrinsics, b.intrinsics));
  EXPECT_TRUE(at::equal(a.poses, b.poses));
  EXPECT_TRUE(at::equal(a.joints, b.joints));
  EXPECT_TRUE(at::equal(a.actions, b.actions));
  EXPECT_TRUE(at::equal(a.action_points, b.action_points));
  EXPECT_TRUE(at::equal(a.bodies, b.bodies));
}

void write_shard(const std::string& path, const std::vector<Episode>& episodes, int64_t dropped = 0) {
  EpisodeWriter writer(path);
  for (const Episode& episode : episodes) writer.add(episode);
  writer.count_dropped("still", dropped);
  writer.commit();
}

/// The error of opening the set and loading all of it; empty where it is taken.
std::string refusal(const std::string& path) {
  try {
    const EpisodeSet set(path);
    for (int64_t i = 0; i < set.size(); ++i) set.load(i);
    return "";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
}

TEST(EpisodeFiles, AreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  const std::vector<Episode> episodes{made_episode(1), made_episode(2, 1, 11, 0), made_episode(uint64_t{1} << 63, 4)};
  write_shard(folder / "a.episodes", episodes);
  const EpisodeSet set(folder / "a.episodes");
  ASSERT_EQ(set.size(), 3);
  for (int64_t i = 0; i < 3; ++i) expect_same(set.load(i), episodes[static_cast<size_t>(i)]);
  const EpisodeSummary& summary = set.summary(2);
  EXPECT_EQ(summary.kind, "lift");
  EXPECT_EQ(summary.seed, uint64_t{1} << 63);
  EXPECT_EQ(summary.frames, 4);
  EXPECT_EQ(summary.cameras, 2);
  EXPECT_EQ(summary.height, 5);
  EXPECT_EQ(summary.width, 6);
  EXPECT_EQ(summary.joints, 8);
  EXPECT_EQ(summary.action_points, 7);
  EXPECT_EQ(summary.names, episodes[2].names);
  EXPECT_EQ(summary.place, 2);
}

TEST(EpisodeFiles, OfEarlierBuildsAreRead) {
  const EpisodeSet set(TOPOMASK_GOLDEN_DIR "/../fuzz/corpus/episodes/formula.episodes");
  ASSERT_EQ(set.size(), 1);
  expect_same(set.load(0), formula_episode());
  EXPECT_EQ(set.dropped().at("diverged"), 3);
}

TEST(EpisodeFiles, RoundDepthToATenthOfAMillimetre) {
  const TemporaryFolder folder;
  Episode episode = made_episode(3);
  episode.depth = at::rand_like(episode.depth) * 6;
  write_shard(folder / "a.episodes", {episode});
  const at::Tensor read = EpisodeSet(folder / "a.episodes").load(0).depth;
  EXPECT_LT((read - episode.depth).abs().max().item<float>(), 5.1e-5F);
  episode.depth[0][0][0][0] = 6.6F;
  EXPECT_ERROR(write_shard(folder / "a.episodes", {episode}), "depth must be at most 6.5535 m, got 6.6");
}

TEST(EpisodeFiles, OfAFolderFollowEachOther) {
  const TemporaryFolder folder;
  write_shard(folder / "s-00001.episodes", {made_episode(12)}, 2);
  write_shard(folder / "s-00000.episodes", {made_episode(10), made_episode(11)}, 3);
  write_file(folder / "notes.txt", "not a shard");
  const EpisodeSet set(folder.path().string());
  ASSERT_EQ(set.size(), 3);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(set.load(i).seed, static_cast<uint64_t>(10 + i));
  EXPECT_EQ(set.dropped().at("still"), 5);
  EXPECT_ERROR(set.load(3), "index must be in [0, 3), got 3");
  EXPECT_ERROR(set.summary(-1), "index must be in [0, 3), got -1");
  const TemporaryFolder empty;
  EXPECT_ERROR(EpisodeSet(empty.path().string()), "the folder has no file *.episodes");
  EXPECT_ERROR(EpisodeSet(empty / "none"), "none: cannot open the file");
}

TEST(EpisodeFiles, HaveTheSameBytesForTheSameEpisodes) {
  const TemporaryFolder folder;
  write_shard(folder / "a.episodes", {made_episode(5), made_episode(6)});
  write_shard(folder / "b.episodes", {made_episode(5), made_episode(6)});
  EXPECT_EQ(read_file(folder / "a.episodes"), read_file(folder / "b.episodes"));
}

TEST(EpisodeFiles, AppearOnlyWhenCommitted) {
  const TemporaryFolder folder;
  {
    EpisodeWriter writer(folder / "a.episodes");
    writer.add(made_episode(1));
    EXPECT_EQ(writer.size(), 1);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(EpisodeFiles, AreLoadedByManyThreads) {
  const TemporaryFolder folder;
  write_shard(folder / "a.episodes", {made_episode(1), made_episode(2), made_episode(3), made_episode(4)});
  const EpisodeSet set(folder / "a.episodes");
  std::vector<Episode> loaded(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { loaded[i] = set.load(static_cast<int64_t>(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 4; ++i) expect_same(loaded[i], made_episode(i + 1));
}

TEST(EpisodeFiles, AreRefusedWhereverTheyAreCut) {
  const TemporaryFolder folder;
  write_shard(folder / "a.episodes", {made_episode(1, 2, 3)});
  const std::string whole = read_file(folder / "a.episodes"), path = folder / "cut.episodes";
  for (size_t length = 0; length < whole.size(); ++length) {
    std::filesystem::remove(path);
    write_file(path, whole.substr(0, length));
    const std::string error = refusal(path);
    ASSERT_TRUE(error.starts_with("EpisodeSet: " + path + ": truncated: ")) << length << ": " << error;
  }
  write_file(path, whole + "x");
  EXPECT_NE(refusal(path).find("damaged: header says"), std::string::npos);
}

TEST(EpisodeFiles, AreRefusedWhicheverBitIsFlipped) {
  const TemporaryFolder folder;
  write_shard(folder / "a.episodes", {made_episode(1, 2, 3)});
  const std::string whole = read_file(folder / "a.episodes"), path = folder / "flipped.episodes";
  for (size_t byte = 0; byte < whole.size(); ++byte) {
    std::string bytes = whole;
    bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << byte % 8));
    std::filesystem::remove(path);
    write_file(path, bytes);
    const std::string error = refusal(path);
    ASSERT_TRUE(error.starts_with("EpisodeSet: " + path + ": ")) << byte << ": " << error;
  }
}

TEST(EpisodeFiles, AreRefusedWhenTheyChangeWhileOpen) {
  const TemporaryFolder folder;
  write_shard(folder / "a.episodes", {made_episode(1)});
  const EpisodeSet set(folder / "a.episodes");
  write_shard(folder / "a.episodes", {made_episode(1), made_episode(2)});
  EXPECT_ERROR(set.load(0), "the file has changed since it was opened");
}

}  // namespace
}  // namespace topomask::testing
