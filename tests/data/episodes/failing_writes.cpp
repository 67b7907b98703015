// A full disk, a short write, a failed fsync, close or rename, at every call that writes episodes.

#include <gtest/gtest.h>

#include "data/episodes/made_episode.h"
#include "data/files.h"
#include "support/surviving_file.h"

namespace topomask::testing {
namespace {

TEST(FailingEpisodes, LeaveTheOldFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.episodes";
  const auto write = [&](uint64_t seed) {
    EpisodeWriter writer(path);
    writer.add(made_episode(seed));
    writer.commit();
  };
  write(1);
  expect_old_file_survives(path, [&] { write(2); });
  EXPECT_EQ(EpisodeSet(path).summary(0).seed, 2);
}

}  // namespace
}  // namespace topomask::testing
