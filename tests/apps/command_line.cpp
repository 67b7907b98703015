#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"
#include "topomask/data/image.h"
#include "topomask/graph_io.h"
#include "topomask/version.h"
#include "topomask/walks.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

nlohmann::json json_of(const Finished& finished) {
  EXPECT_EQ(finished.status, 0) << finished.err;
  return nlohmann::json::parse(finished.out);
}

const std::vector<std::string> kCommands{"train", "eval",    "predict", "report", "mask",
                                         "walks", "suggest", "explain", "bench",  "info"};

}  // namespace

TEST(CommandLine, HelpNamesEveryCommandAndEachHasExamples) {
  const Finished help = tool("--help");
  EXPECT_EQ(help.status, 0);
  for (const std::string& command : kCommands) {
    EXPECT_TRUE(has(help.out, "  " + command)) << command;
    const Finished one = tool(command + " --help");
    EXPECT_EQ(one.status, 0);
    EXPECT_TRUE(has(one.out, "Examples:\n  topomask " + command)) << one.out;
    EXPECT_TRUE(has(one.out, "--json")) << command;
  }
}

TEST(CommandLine, SaysItsVersion) {
  EXPECT_EQ(tool("--version").out, "topomask " TOPOMASK_VERSION "\n");
}

TEST(CommandLine, WrongUsageIsStatusTwo) {
  const auto expect = [](const std::string& arguments, const std::string& text) {
    const Finished finished = tool(arguments);
    EXPECT_EQ(finished.status, 2) << arguments;
    EXPECT_TRUE(has(finished.err, text)) << finished.err;
    EXPECT_EQ(finished.out, "");
  };
  expect("", "A subcommand is required");
  expect("tarin", "there is no command 'tarin'; did you mean train?");
  expect("mask grid:5x5 --kind gfr", "--kind: unknown kind 'gfr'; did you mean grf?");
  expect("mask grod:5x5", "unknown graph builder 'grod'");
  expect("mask grid:", "the graph 'grid:': '' is not a whole number");
  expect("mask random:5", "lacks a size");
  expect("mask grid:5x5 --f 1,x", "--f: 'x' is not a finite number");
  expect("mask grid:5x5 --f cubic:3", "--f: unknown function 'cubic'");
  expect("mask grid:3x3 --node 9", "--node must be from 0 to 8, got 9");
  expect("mask hypercube:3 --kind toeplitz", "--kind toeplitz needs a grid");
  expect("train --out /tmp/x --model.widht 3", "unknown key 'model.widht'; did you mean 'model.width'?");
  expect("train --out /tmp/x --model.width wide", "model.width must be an integer, got 'wide'");
  expect("train --out /tmp/x --set model.width", "--set takes KEY=VALUE, got 'model.width'");
  expect("train --set model.width=8", "train needs a folder for the run: --out FOLDER");
}

TEST(CommandLine, FailuresAreStatusOneAndSayWhatIsMissing) {
  const auto expect = [](const std::string& arguments, const std::string& text) {
    const Finished finished = tool(arguments);
    EXPECT_EQ(finished.status, 1) << arguments;
    EXPECT_TRUE(has(finished.err, text)) << finished.err;
    EXPECT_FALSE(has(finished.err, "frame #")) << finished.err;
  };
  expect("mask nowhere.txt", "nowhere.txt: cannot open the file");
  expect("eval nowhere", "nowhere: there is no such run; `topomask train --out nowhere` makes one");
  expect("report nowhere", "report: nowhere: there is no such folder");
  expect("train nowhere.json --out /tmp/x", "read_config: nowhere.json: cannot read the file");
  expect("train --out /tmp/x --data.kind idx --data.path /nowhere",
         "data.path must be a folder that holds idx files, got '/nowhere'");
}

TEST(CommandLine, OutputThatCannotBeWrittenIsAFailure) {
  if (!std::filesystem::is_character_file("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  for (const char* arguments : {"mask grid:8x8 --json", "mask grid:3x3", "info", "mask --help", "--version"}) {
    const Finished finished =
        run_command("( OMP_NUM_THREADS=1 '" TOPOMASK_TOOL "' " + std::string(arguments) + " >/dev/full )");
    EXPECT_EQ(finished.status, 1) << arguments;
    EXPECT_TRUE(has(finished.err, "topomask: stdout: cannot write the output\n")) << arguments << finished.err;
  }
}

TEST(CommandLine, InfoIsJsonWhereAsked) {
  const auto info = json_of(tool("info --json"));
  EXPECT_EQ(info["version"], TOPOMASK_VERSION);
  EXPECT_GT(info["variants"].size(), 5);
  EXPECT_TRUE(has(tool("info").out, "torch"));
}

TEST(CommandLine, MaskInspectsDrawsAndSaves) {
  const TemporaryFolder folder;
  const auto result = json_of(tool("mask grid:5x6 --kind grf --walkers 50 --f 1,0.5 --png " + folder / "rows.png" +
                                   " --save " + folder / "mask.npz --json"));
  EXPECT_EQ(result["nodes"], 30);
  EXPECT_EQ(result["edges"], 49);
  EXPECT_GT(result["error"], 0);
  EXPECT_LT(result["error"], 0.5);
  EXPECT_EQ(read_image(folder / "rows.png").size(0), 3);
  EXPECT_EQ(read_graph(folder / "mask.npz", {.directed = true}).num_entries(), result["nonzeros"]);
}

TEST(CommandLine, EveryKindOfMaskIsMade) {
  for (const char* kind : {"none", "causal", "neighbours", "series", "asymmetric_grf", "ad_hoc", "node_kernel",
                           "toeplitz", "forest", "diffusion", "centrality"}) {
    const auto result = json_of(tool("mask grid:3x4 --json --kind " + std::string(kind)));
    EXPECT_EQ(result["nodes"], 12) << kind;
    EXPECT_GT(result["row_sum_max"], 0) << kind;
  }
}

TEST(CommandLine, MasksOfDenseGraphsAreInspectedInSeconds) {
  const Finished finished =
      run_command("OMP_NUM_THREADS=1 timeout 30 '" TOPOMASK_TOOL "' mask complete:2500 --kind series --json");
  const auto result = json_of(finished);
  EXPECT_EQ(result["nonzeros_estimated"], 2500.0 * 2500.0);
  EXPECT_NEAR(result["row_sum_mean"], 1.9921875, 1e-3);  // Σ 2^-k, as rows of W sum to one
}

TEST(CommandLine, PicturesHaveATitleAndAScale) {
  const TemporaryFolder folder;
  const auto made = tool("mask grid:6x6 --kind series --f 1,0.5 --node 0 --png " + folder / "a.png");
  ASSERT_EQ(made.status, 0) << made.err;
  const at::Tensor picture = read_image(folder / "a.png");
  // A title and a bar of colours next to the one panel of 6 × 16 pixels squared.
  EXPECT_GT(picture.size(1), 6 * 16 + 40);
  EXPECT_GT(picture.size(2), 6 * 16 + 60);
  const at::Tensor title = picture.slice(1, 14, 28);
  EXPECT_LT(title.min().item<int64_t>(), 100) << "the title is dark on white";
  EXPECT_GT(title.to(at::kFloat).mean().item<double>(), 128);
}

TEST(CommandLine, SaysWhatALargeCommandWillCost) {
  const Finished finished = tool("walks path:3000 --walkers 40000 --halting-probability 0.4 --max-hops 2 --json");
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(has(finished.err, "walks: about 2.4e+08 steps of walks, and up to")) << finished.err;
  EXPECT_EQ(tool("walks path:30 --json").err, "");
}

TEST(CommandLine, NodeIdsThatCountFromOneAreNoticedAndRead) {
  const TemporaryFolder folder;
  std::ofstream(folder / "g.txt") << "1 2\n2 3\n";
  const Finished noticed = tool("walks " + folder / "g.txt" + " --json");
  EXPECT_EQ(json_of(noticed)["nodes"], 4);
  EXPECT_TRUE(has(noticed.err, "node 0 has no edge; --one-based reads id 1 as node 0\n")) << noticed.err;
  const Finished read = tool("walks " + folder / "g.txt" + " --one-based --json");
  EXPECT_EQ(json_of(read)["nodes"], 3);
  EXPECT_EQ(read.err, "");
}

TEST(CommandLine, WalksAreSampledAndSaved) {
  const TemporaryFolder folder;
  const auto result = json_of(tool("walks cycle:9 --walkers 6 --fixed-hops 2 --save " + folder / "table --json"));
  EXPECT_EQ(result["walks"], 54);
  EXPECT_EQ(result["mean_length"], 2);
  EXPECT_EQ(load_walks(folder / "table").num_nodes(), 9);
}

TEST(CommandLine, SuggestExplainAndBenchAnswer) {
  const auto suggested = json_of(tool("suggest grid:6x6 --tolerance 0.2 --json"));
  EXPECT_TRUE(suggested["use"] == "exact" || suggested["use"] == "walks");
  const auto explained = json_of(tool("explain grid:8x8 --kind series --f 1,0.5 --json"));
  EXPECT_EQ(explained["routes"].size(), 6);
  const auto timed = json_of(tool("bench grid:8x8 --f 1,0.5 --repetitions 2 --json"));
  EXPECT_EQ(timed["nodes"], 64);
  EXPECT_TRUE(has(tool("explain path:20").out, "sparse"));
}
