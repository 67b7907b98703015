// What large commands cost is announced, bounded, and reported while it lasts.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

using namespace topomask::testing;

namespace {

/// The tool, ended after some seconds: what it printed until then.
Finished tool_for(int seconds, const std::string& arguments) {
  return run_command("OMP_NUM_THREADS=1 timeout " + std::to_string(seconds) + " '" TOPOMASK_TOOL "' " + arguments);
}

}  // namespace

TEST(Cost, RepellingWalkersBeyondAnyMemoryAreRefused) {
  for (const char* command : {"walks", "mask", "explain", "bench"}) {
    for (const char* walkers : {"100000000", "2147483647"}) {
      const Finished finished =
          tool(std::string(command) + " cycle:4 --walkers " + walkers + " --coupling repelling --fixed-hops 9" +
               (std::string(command) == "walks" ? "" : " --kind grf"));
      EXPECT_EQ(finished.status, 2) << command << finished.err;
      EXPECT_TRUE(has(finished.err, "walkers must be at most 1677721 for an ensemble of repelling walkers"))
          << command << finished.err;
      EXPECT_TRUE(has(finished.err, std::string("got ") + walkers)) << finished.err;
    }
  }
  EXPECT_EQ(tool("walks cycle:4 --walkers 100000000 --ensemble 3 --coupling repelling").status, 2);
  EXPECT_EQ(tool("walks cycle:4 --walkers 4 --ensemble 2 --coupling repelling --json").status, 0);
}

TEST(Cost, TheMemoryOfRepellingWalkersIsAnnounced) {
  const Finished finished = tool_for(5, "walks cycle:4 --walkers 4000000 --coupling repelling --fixed-hops 3");
  EXPECT_TRUE(has(finished.err, "for their table and 2.4 GiB while walkers repel each other")) << finished.err;
}

TEST(Cost, BenchLeavesOutWhatTakesTooLong) {
  const Finished finished = tool("bench path:3000 --repetitions 1 --longest 1e-4 --json");
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(has(finished.err, "bench: torch, softmax without a mask (SDPA) is left out: a call takes about"))
      << finished.err;
  const auto result = nlohmann::json::parse(finished.out);
  bool chosen = false;
  for (const auto& row : result["forward pass, float32, median"]) {
    chosen |= has(row["what"], "(chosen)");
    EXPECT_FALSE(has(row["what"], "SDPA")) << row;
  }
  EXPECT_TRUE(chosen);
  EXPECT_GE(result["left out"].size(), 1);
}

TEST(Cost, BenchAnnouncesOnlyWhatItTimes) {
  const Finished finished = tool("bench path:60000 --kind series --f 1,0.5 --repetitions 1 --longest 0.5 --json");
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(has(finished.err, "topomask, strips is left out: a call takes about ")) << finished.err;
  const size_t slowest = finished.err.find("the slowest takes about ");
  if (slowest != std::string::npos) {
    EXPECT_LE(std::stod(finished.err.substr(slowest + 24)), 0.5) << finished.err;
  }
  EXPECT_FALSE(has(tool("bench grid:8x8 --f 1,0.5 --repetitions 1").err, "left out"));
}

TEST(Cost, ExplainReportsWhatTakesLong) {
  const Finished finished = tool_for(6, "explain path:400 --kind grf --walkers 30000000");
  EXPECT_TRUE(has(finished.err, "explain: about 2.4e+10 steps of walks")) << finished.err;
  EXPECT_TRUE(has(finished.err, "explain: making the mask ...")) << finished.err;
}

TEST(Cost, EveryCommandReportsAGraphThatTakesLongToRead) {
  const TemporaryFolder folder;
  std::string script;
  for (const std::string command : {"mask", "walks", "suggest", "explain", "bench"}) {
    const std::string path = folder / (command + ".txt");
    script += "mkfifo '" + path + "'; (sleep 3; echo '0 1') > '" + path + "' & ";
    script += "OMP_NUM_THREADS=1 '" TOPOMASK_TOOL "' " + command + " '" + path + "' >/dev/null 2>'" +
              (folder / (command + ".err")) + "' & ";
  }
  run_command("{ " + script + "wait; }");
  for (const std::string command : {"mask", "walks", "suggest", "explain", "bench"}) {
    const std::string err = read_file(folder / (command + ".err"));
    EXPECT_TRUE(has(err, command + ": reading " + folder / (command + ".txt") + " ...\n")) << command << err;
  }
}

TEST(Cost, MemoryThatRunsOutIsNamedWithWhatWasMade) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take address space of their own";
#endif
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> lines{
      {"mask complete:40000", "topomask: out of memory: building the graph complete:40000"},
      {"walks path:2147483647", "topomask: out of memory: building the graph path:2147483647: 16.0 GiB cannot be"},
      {"suggest star:2147483647", "topomask: out of memory: building the graph star:2147483647"},
      {"bench grid:40x40 --heads 1000000",
       "topomask: out of memory: making queries, keys and values: 381.5 GiB cannot be allocated"},
      {"train --quiet --model.width 1000000 --model.heads 1 --out " + folder / "run",
       "topomask: out of memory: training the model of run"}};
  for (const auto& [arguments, text] : lines) {
    const Finished finished = run_command("ulimit -v 6000000; OMP_NUM_THREADS=1 '" TOPOMASK_TOOL "' " + arguments);
    EXPECT_EQ(finished.status, 1) << arguments << "\n" << finished.err;
    EXPECT_TRUE(has(finished.err, text)) << arguments << "\n" << finished.err;
    for (const char* foreign : {"enforce fail", "DefaultCPUAllocator", "std::", "vector::"}) {
      EXPECT_FALSE(has(finished.err, foreign)) << arguments << "\n" << finished.err;
    }
  }
}
