#include <gtest/gtest.h>

#include "apps/process.h"

namespace topomask::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSmall = " --episodes 6 --side 16 --frames 4 --shard 2 --seed 9 ";

/// All files of a folder, by name.
std::map<std::string, std::string> content(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& file : fs::directory_iterator(folder))
    files[file.path().filename().string()] = read_file(file.path());
  return files;
}

TEST(RobotDataCommand, MakesTheSameBytesInPartsAndAfterAnInterruption) {
  const TemporaryFolder folder;
  const std::string whole = folder / "whole", parts = folder / "parts";
  const Finished done = tool("--out '" + whole + "'" + kSmall);
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(has(done.out, "episodes 6\n")) << done.out;
  for (const char* part : {"1", "0", "2"}) {
    const Finished some = tool("--out '" + parts + "'" + kSmall + "--parts 3 --part " + part);
    ASSERT_EQ(some.status, 0) << some.err;
  }
  EXPECT_EQ(content(whole), content(parts));
  EXPECT_EQ(content(whole).size(), 4U);  // three shards and the settings

  fs::remove(parts + "/robot-00001.episodes");
  const Finished again = tool("--out '" + parts + "'" + kSmall);
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(has(again.err, "robot-00000.episodes: made before")) << again.err;
  EXPECT_EQ(content(whole), content(parts));
}

TEST(RobotDataCommand, FailsWhereItsOutputCannotBeWritten) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  const TemporaryFolder folder;
  const Finished done = run_command("( '" TOPOMASK_TOOL "' --out '" + (folder / "a") +
                                    "' --episodes 1 --side 16 --frames 4 >/dev/full )");
  EXPECT_EQ(done.status, 1);
  EXPECT_TRUE(has(done.err, "robot data: stdout: cannot write the output")) << done.err;
}

TEST(RobotDataCommand, RefusesWhatItCannotContinueOrRead) {
  const TemporaryFolder folder;
  const std::string out = "--out '" + (folder / "a") + "' ";
  ASSERT_EQ(tool(out + "--episodes 1 --side 16 --frames 4").status, 0);
  const Finished other = tool(out + "--episodes 1 --side 32 --frames 4");
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(has(other.err, "settings.json is of a run with other settings")) << other.err;
  const Finished arm = tool("--out '" + (folder / "b") + "' --arm /nowhere");
  EXPECT_EQ(arm.status, 1);
  EXPECT_TRUE(has(arm.err, "the arm must be 'builtin' or a folder with iiwa14.xml")) << arm.err;
  EXPECT_FALSE(fs::exists(folder / "b"));
  std::string damaged = read_file(folder / "a/robot-00000.episodes");
  damaged.pop_back();
  write_file(folder / "a/robot-00000.episodes", damaged);
  const Finished cut = tool(out + "--episodes 1 --side 16 --frames 4");
  EXPECT_EQ(cut.status, 1);
  EXPECT_TRUE(has(cut.err, "robot-00000.episodes: truncated")) << cut.err;
  EXPECT_EQ(tool(out + "--episodes 0").status, 2);
  EXPECT_EQ(tool(out + "--part 1").status, 2);
  EXPECT_EQ(tool("").status, 2);
  EXPECT_EQ(tool("--help").status, 0);
}

}  // namespace
}  // namespace topomask::testing
