#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

using namespace topomask::testing;

namespace {

constexpr const char* kTwoSteps =
    " --data.image_size 16 --data.synthetic_train 16 --data.synthetic_test 8 --model.patch_size 4 --model.width 16"
    " --model.depth 1 --model.heads 2 --train.batch_size 8 --train.steps 2 --quiet --json --restart --out ";

/// The tool in an environment that says nothing of threads, apart from `settings`.
Finished bare_tool(const std::string& settings, const std::string& arguments) {
  return run_command("env -u OMP_NUM_THREADS -u MKL_NUM_THREADS -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT " + settings +
                     " '" TOPOMASK_TOOL "' " + arguments);
}

int64_t threads_of_info(const std::string& settings, const std::string& arguments = "") {
  const Finished done = bare_tool(settings, "info --json " + arguments);
  EXPECT_EQ(done.status, 0) << done.err;
  return nlohmann::json::parse(done.out)["threads"];
}

/// What provenance.json says of the last run in the folder.
int64_t threads_of_training(const std::string& settings, const std::string& arguments = "") {
  const TemporaryFolder folder;
  const Finished done = bare_tool(settings, "train" + std::string(kTwoSteps) + (folder / "run") + " " + arguments);
  EXPECT_EQ(done.status, 0) << done.err;
  return nlohmann::json::parse(read_file(folder / "run/provenance.json")).back()["machine"]["threads"];
}

}  // namespace

TEST(ToolThreads, AreOneForEachCpuThatTheProcessMayUse) {
  EXPECT_EQ(threads_of_info("taskset -c $(taskset -cp $$ | grep -oE '[0-9]+' | tail -n 1)"), 1);
  EXPECT_EQ(threads_of_training("taskset -c $(taskset -cp $$ | grep -oE '[0-9]+' | tail -n 1)"), 1);
}

TEST(ToolThreads, AreThoseOfTheEnvironmentOrOfTheCommandLine) {
  EXPECT_EQ(threads_of_info("OMP_NUM_THREADS=1"), 1);
  EXPECT_EQ(threads_of_info("OMP_NUM_THREADS=1", "--threads 5"), 5);
  EXPECT_EQ(threads_of_training("OMP_NUM_THREADS=1"), 1);
  EXPECT_EQ(threads_of_training("", "--threads 12"), 12) << "the upper bound of the default holds for the default only";
}

TEST(ToolThreads, OfTrainingAreAtMostEight) {
  const int64_t threads = threads_of_training("");
  EXPECT_GE(threads, 1);
  EXPECT_LE(threads, 8);
}

/// libgomp prints its settings when it is loaded.
TEST(ToolThreads, OfTrainingSleepWhileTheyWait) {
  const TemporaryFolder folder;
  const auto settings = [&](const std::string& environment) {
    return bare_tool("OMP_DISPLAY_ENV=verbose " + environment, "train" + std::string(kTwoSteps) + (folder / "run")).err;
  };
  const std::string standard = settings("");
  if (!has(standard, "GOMP_SPINCOUNT")) GTEST_SKIP() << "torch's OpenMP is not libgomp";
  EXPECT_TRUE(has(standard, "GOMP_SPINCOUNT = '0'")) << standard;
  EXPECT_FALSE(has(settings("OMP_WAIT_POLICY=active"), "GOMP_SPINCOUNT = '0'")) << "who sets the policy has it";
  EXPECT_FALSE(has(settings("GOMP_SPINCOUNT=77"), "GOMP_SPINCOUNT = '0'"));
}
