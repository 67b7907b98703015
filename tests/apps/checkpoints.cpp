// What the tool says of damaged checkpoints, missing GPUs and full disks.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"
#include "topomask/config.h"
#include "topomask/train/checkpoint.h"

namespace topomask::testing {
namespace {

const std::string kShort =
    " --quiet --data.image_size 16 --data.synthetic_train 32 --data.synthetic_test 16 --model.width 8 --model.depth 1"
    " --model.heads 2 --model.variant linear --train.steps 2 --train.batch_size 8";

class Checkpoints : public ::testing::Test {
 protected:
  void SetUp() override {
    const Finished trained = tool("train --out " + run() + kShort);
    ASSERT_EQ(trained.status, 0) << trained.err;
  }
  std::string run() const { return folder_ / "run"; }
  std::string checkpoint() const { return run() + "/" + kCheckpointName; }

  TemporaryFolder folder_;
};

TEST_F(Checkpoints, ThatAreCutAreRefusedByName) {
  const std::string whole = read_file(checkpoint());
  for (const double part : {0.0, 0.3, 0.9}) {
    write_file(checkpoint(), whole.substr(0, static_cast<size_t>(part * static_cast<double>(whole.size()))));
    const Finished evaluated = run_command("MALLOC_MMAP_THRESHOLD_=4096 '" TOPOMASK_TOOL "' eval " + run());
    EXPECT_EQ(evaluated.status, 1);
    EXPECT_TRUE(has(evaluated.err, checkpoint() + ": truncated: ")) << evaluated.err;
  }
  std::filesystem::rename(checkpoint(), run() + "/checkpoint.pt");
  EXPECT_TRUE(has(tool("eval " + run()).err, "checkpoint.pt, a pickle of an earlier version"));
}

TEST_F(Checkpoints, OfAGpuThatIsNotThereAreEvaluatedOnTheCpuWhichIsSaid) {
  if (at::hasCUDA()) GTEST_SKIP() << "needs a machine without a GPU";
  const Finished plain = tool("eval " + run() + " --json");
  EXPECT_EQ(plain.err, "");
  Checkpoint changed = load_checkpoint(checkpoint());
  RunConfig config = parse_config(changed.config, "");
  config.train.device = "cuda";
  changed.config = to_json(config);
  save_checkpoint(changed, checkpoint());
  const Finished evaluated = tool("eval " + run() + " --json");
  EXPECT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_TRUE(has(evaluated.err, "the run was trained on cuda, which is not available here: evaluating on the CPU"));
  EXPECT_EQ(evaluated.out, plain.out);
  EXPECT_EQ(tool("eval " + run() + " --device cpu").err, "");
  const Finished asked = tool("eval " + run() + " --device cuda");
  EXPECT_EQ(asked.status, 1);
  EXPECT_TRUE(has(asked.err, "--device is cuda, but torch finds no GPU here: use cpu")) << asked.err;
  const Finished trained = tool("train --out " + folder_ / "other" + kShort + " --train.device cuda");
  EXPECT_EQ(trained.status, 1);
  EXPECT_TRUE(has(trained.err, "train.device is cuda, but torch finds no GPU here: use cpu")) << trained.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other"));
}

TEST_F(Checkpoints, OfOtherSettingsAreReplacedOnRequest) {
  const std::string other = "train --out " + run() + kShort + " --model.width 16";
  const Finished refused = tool(other);
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(has(refused.err,
                  "model.width = 8, and this one has 16; train it in another folder, or start over in this "
                  "one with --restart"))
      << refused.err;
  const Finished restarted = tool(other + " --restart --json");
  ASSERT_EQ(restarted.status, 0) << restarted.err;
  EXPECT_EQ(nlohmann::json::parse(restarted.out)["resumed_from"], 0);
}

#ifdef TOPOMASK_FAILING_CALLS
TEST_F(Checkpoints, ReportSurvivesFailingWrites) {
  const std::string folder = folder_ / "page";
  const std::string page = folder + "/report.html", old = "the page that was there";
  int failures = 0;
  const auto made_with = [&](const std::string& mode, int call) {
    write_file(page, old);
    return run_command("LD_PRELOAD='" TOPOMASK_FAILING_CALLS "' TOPOMASK_FAIL_FOLDER=" + folder +
                       " TOPOMASK_FAIL_MODE=" + mode + " TOPOMASK_FAIL_CALL=" + std::to_string(call) +
                       " '" TOPOMASK_TOOL "' report " + run() + " --no-pictures --out " + page);
  };
  for (int call = 1;; ++call) {
    const Finished made = made_with("fail", call);
    if (made.status == 0) break;
    ++failures;
    const bool in_place = has(made.err, "written, but its folder");
    EXPECT_TRUE(has(made.err, page) && (in_place || has(made.err, "cannot write"))) << made.err;
    EXPECT_EQ(read_file(page) == old, !in_place);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
    ASSERT_LT(call, 40);
  }
  EXPECT_GE(failures, 7);  // open, write, open of the folder, fsync, close, rename, fsync of the folder
  const std::string fresh = read_file(page);
  EXPECT_NE(fresh, old);
  // A full disk in the middle of a write, the second call; of no other call is anything left out.
  const Finished cut = made_with("shorten", 2);
  EXPECT_NE(cut.status, 0);
  EXPECT_TRUE(has(cut.err, page) && has(cut.err, "cannot write")) << cut.err;
  EXPECT_EQ(read_file(page), old);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_EQ(made_with("dribble", 1).status, 0);
  EXPECT_TRUE(read_file(page).ends_with(fresh.substr(fresh.size() - 9)));
}
#endif

}  // namespace
}  // namespace topomask::testing
