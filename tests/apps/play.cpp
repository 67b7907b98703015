#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "apps/process.h"
#include "data/episodes/made_episode.h"
#include "topomask/data/image.h"

namespace topomask::testing {
namespace {

TEST(Play, DrawsASheetAndAnAnimation) {
  const TemporaryFolder folder;
  EpisodeWriter writer(folder / "a.episodes");
  writer.add(made_episode(1));
  writer.add(made_episode(2, 3, 5));
  writer.commit();
  const Finished done =
      tool("play '" + (folder / "a.episodes") + "' --episode 1 --scale 2 --out '" + (folder / "p") + "' --json");
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(has(done.out, "\"kind\": \"lift\"")) << done.out;
  // Three frames of 6×5 pixels across and two cameras with their depths down, each pixel two wide, gaps of four.
  EXPECT_EQ(read_image(folder / "p/episode-1-sheet.png").sizes(), at::IntArrayRef({3, 4 * 14 + 4, 3 * 16 + 4}));
  EXPECT_EQ(read_image(folder / "p/episode-1.apng").sizes(), at::IntArrayRef({3, 2 * 14 + 4, 2 * 16 + 4}));
  const std::string bytes = read_file(folder / "p/episode-1.apng");
  EXPECT_NE(bytes.find("acTL"), std::string::npos);
}

TEST(Play, NamesWhatItCannotDraw) {
  const TemporaryFolder folder;
  EpisodeWriter writer(folder / "a.episodes");
  writer.add(made_episode(1));
  writer.commit();
  const Finished beyond = tool("play '" + (folder / "a.episodes") + "' --episode 1");
  EXPECT_EQ(beyond.status, 2);
  EXPECT_TRUE(has(beyond.err, "play: --episode must be below 1, got 1")) << beyond.err;
  const Finished none = tool("play '" + (folder / "none") + "'");
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(has(none.err, "none: cannot open the file")) << none.err;
  EXPECT_EQ(tool("play '" + (folder / "a.episodes") + "' --episode -1").status, 2);
}

}  // namespace
}  // namespace topomask::testing
