#include "topomask/train/train.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "support/compare.h"
#include "topomask/config.h"
#include "train/metrics.h"
#include "train/run_testing.h"

extern char** environ;

namespace topomask {
namespace {

namespace fs = std::filesystem;
using testing::kQuiet;
using testing::ScratchFolder;
using testing::small_run;

TEST(Train, LeavesAWholeFolder) {
  const ScratchFolder folder;
  const TrainResult result = train(small_run(), folder / "run", kQuiet);
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.steps, 12);
  EXPECT_EQ(result.resumed_from, 0);
  EXPECT_GT(result.median_step_ms, 0);
  ASSERT_EQ(result.evaluations.size(), 2);
  for (const char* name : {"config.json", "metrics.jsonl", "checkpoint.pt", "summary.json"}) {
    EXPECT_TRUE(fs::exists(folder.path / "run" / name)) << name;
  }
  const RunConfig written = read_config((folder.path / "run" / "config.json").string());
  EXPECT_EQ(written.model.image_size, 16);
  EXPECT_EQ(written.model.classes, 4);
  const RunMetrics metrics = read_metrics(folder / "run");
  EXPECT_EQ(metrics.train.size(), 4);
  EXPECT_EQ(metrics.eval.back().split, "test");
  EXPECT_EQ(metrics.eval.back().accuracy, result.evaluations.at("test").accuracy);
}

TEST(Train, ARunStoppedAndContinuedEndsBitForBitAsOneThatWasNot) {
  for (const std::string variant : {"grf", "toeplitz"}) {
    const ScratchFolder folder;
    train(small_run(variant), folder / "straight", kQuiet);
    TrainHooks hooks = kQuiet;
    hooks.stop = [](int64_t step) { return step == 5 || step == 9; };
    EXPECT_FALSE(train(small_run(variant), folder / "broken", hooks).finished);
    EXPECT_EQ(train(small_run(variant), folder / "broken", hooks).resumed_from, 5);
    const TrainResult last = train(small_run(variant), folder / "broken", hooks);
    EXPECT_EQ(last.resumed_from, 9);
    EXPECT_TRUE(last.finished);
    testing::expect_same_run(folder / "straight", folder / "broken");
    const RunMetrics a = read_metrics(folder / "straight"), b = read_metrics(folder / "broken");
    EXPECT_EQ(a.eval.back().loss, b.eval.back().loss);
    const TrainResult again = train(small_run(variant), folder / "broken", kQuiet);  // nothing left to do
    EXPECT_EQ(again.evaluations.at("test").accuracy, last.evaluations.at("test").accuracy);
    EXPECT_EQ(read_metrics(folder / "broken").eval.size(), b.eval.size());
  }
}

/// What the test below runs in a process of its own, to be killed.
TEST(TrainChild, TrainsWhereTold) {
  const char* run_dir = std::getenv("TOPOMASK_TEST_RUN_DIR");
  if (run_dir == nullptr) GTEST_SKIP() << "only in the process that another test starts";
  RunConfig config = small_run();
  config.train.checkpoint_every = 1;  // most of the time is spent writing: that is where kills should land
  train(config, run_dir, kQuiet);
}

TEST(Train, ARunKilledAtAnyMomentEndsBitForBitAsOneThatWasNot) {
  const ScratchFolder folder;
  const fs::path run_dir = folder / "killed";
  ::setenv("TOPOMASK_TEST_RUN_DIR", run_dir.c_str(), 1);
  char program[] = "/proc/self/exe", filter[] = "--gtest_filter=TrainChild.*", brief[] = "--gtest_brief=1";
  char* arguments[] = {program, filter, brief, nullptr};
  int kills = 0;
  for (int attempt = 0;; ++attempt) {
    pid_t child = 0;
    ASSERT_EQ(::posix_spawn(&child, program, nullptr, nullptr, arguments, environ), 0);
    const auto checkpoint = run_dir / "checkpoint.pt";
    const auto written = [&] {
      return fs::exists(checkpoint) ? fs::last_write_time(checkpoint) : fs::file_time_type();
    };
    const auto before = written();
    int status = 0;
    // After some progress, so that the run comes to an end, and at a moment that differs.
    for (int waited = 0; ::waitpid(child, &status, WNOHANG) == 0; ++waited) {
      if (attempt < 3 && written() != before) {
        std::this_thread::sleep_for(std::chrono::milliseconds(7 * attempt));
        ::kill(child, SIGKILL);
        ::waitpid(child, &status, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ASSERT_LT(waited, 60000);
    }
    if (WIFSIGNALED(status)) {
      ++kills;
      continue;
    }
    ASSERT_EQ(WEXITSTATUS(status), 0);
    break;
  }
  ::unsetenv("TOPOMASK_TEST_RUN_DIR");
  EXPECT_GE(kills, 1);
  RunConfig config = small_run();
  train(config, folder / "straight", kQuiet);
  testing::expect_same_run(folder / "straight", run_dir);
  for (const auto& entry : fs::directory_iterator(run_dir)) {
    EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
  }
}

TEST(Train, PartsOfABatchAddUpToTheWhole) {
  const ScratchFolder folder;
  RunConfig config = small_run();
  config.model.dropout = 0;  // drawn for each part
  config.train.steps = 3;
  train(config, folder / "whole", kQuiet);
  config.train.accumulation = 3;  // of 16 images: 6, 5, 5
  train(config, folder / "parts", kQuiet);
  const NamedTensors a = load_checkpoint(folder.path / "whole" / "checkpoint.pt").optimiser;
  const NamedTensors b = load_checkpoint(folder.path / "parts" / "checkpoint.pt").optimiser;
  for (const auto& [name, tensor] : a) {
    if (!name.starts_with("first.")) continue;
    EXPECT_TRUE(testing::close(b.at(name), tensor, 1e-2, 1e-4)) << name;
  }
}

TEST(Train, AFolderOfAnotherConfigurationIsRefused) {
  const ScratchFolder folder;
  RunConfig config = small_run("linear");
  config.train.steps = 2;
  train(config, folder / "run", kQuiet);
  config.train.log_every = 1;  // may differ
  train(config, folder / "run", kQuiet);
  config.model.width = 24;
  EXPECT_ERROR(train(config, folder / "run", kQuiet),
               "checkpoint.pt: it is of a run with model.width = 16, and this one has 24");
}

TEST(Train, ADamagedCheckpointIsAnErrorAndIsKept) {
  const ScratchFolder folder;
  RunConfig config = small_run("linear");
  config.train.steps = 2;
  train(config, folder / "run", kQuiet);
  const fs::path checkpoint = folder.path / "run" / "checkpoint.pt";
  fs::resize_file(checkpoint, fs::file_size(checkpoint) - 100);
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "checkpoint.pt: not a whole checkpoint");
  EXPECT_TRUE(fs::exists(checkpoint));
}

TEST(Train, StartsFromPretrainedWeights) {
  const ScratchFolder folder;
  RunConfig config = small_run("linear");
  config.train.steps = 2;
  train(config, folder / "first", kQuiet);
  config.train.pretrained = (folder.path / "first" / "checkpoint.pt").string();
  config.train.learning_rate = config.train.final_learning_rate = 0;
  config.train.ema_decay = 0;
  train(config, folder / "second", kQuiet);
  const Checkpoint first = load_checkpoint(folder.path / "first" / "checkpoint.pt");
  testing::expect_same(load_checkpoint(folder.path / "second" / "checkpoint.pt").model, first.average);
}

TEST(Train, AModelComesBackFromItsCheckpoint) {
  const ScratchFolder folder;
  RunConfig config = small_run();
  config.train.steps = 3;
  const TrainResult result = train(config, folder / "run", kQuiet);
  const LoadedModel loaded = load_model(folder.path / "run" / "checkpoint.pt");
  EXPECT_EQ(loaded.step, 3);
  const DatasetPtr test = open_dataset(config.data, Split::test);
  const Evaluation evaluation = evaluate(*loaded.model, test, augment_options(config.data, *test), 7);
  EXPECT_EQ(evaluation.accuracy, result.evaluations.at("test").accuracy);
  EXPECT_NEAR(evaluation.loss, result.evaluations.at("test").loss, 1e-5);
}

TEST(Train, Bfloat16Trains) {
  const ScratchFolder folder;
  RunConfig config = small_run();
  config.train.precision = "bfloat16";
  config.train.steps = 4;
  EXPECT_TRUE(std::isfinite(train(config, folder / "run", kQuiet).evaluations.at("test").loss));
}

TEST(Train, WrongOptionsAreRefused) {
  const ScratchFolder folder;
  const auto with = [&](auto change) {
    RunConfig config = small_run("linear");
    change(config);
    train(config, folder / "run", kQuiet);
  };
  EXPECT_ERROR(with([](auto& c) { c.train.batch_size = 1000; }), "batch_size must be in [1, 80], the number of");
  EXPECT_ERROR(with([](auto& c) { c.train.accumulation = 0; }), "accumulation must be >= 1, got 0");
  EXPECT_ERROR(with([](auto& c) { c.train.epochs = -1; }), "train: epochs must be >= 0, got -1");
  EXPECT_ERROR(with([](auto& c) { c.train.warmup_steps = -1; }), "train: warmup_steps must be >= 0, got -1");
  EXPECT_ERROR(with([](auto& c) { c.train.label_smoothing = 2; }), "label_smoothing must be in [0, 1], got 2");
  EXPECT_ERROR(with([](auto& c) { c.train.precision = "float8"; }),
               "precision must be float32 or bfloat16, got float8");
  EXPECT_ERROR(with([](auto& c) { c.model.classes = 7; }), "model.classes must be 0 or 4, as the data has it, got 7");
  EXPECT_ERROR(with([](auto& c) { c.train.learning_rate = 1e30, c.train.clip_norm = 0; }), "the loss is");
}

TEST(TrainSlow, GrfLearnsWhatIsNearToWhat) {
  const ScratchFolder folder;
  RunConfig config = small_run();
  config.data.image_size = 32;
  config.data.synthetic_train = 2048;
  config.data.synthetic_test = 512;
  config.data.crop_padding = 0;
  config.data.mixup = 0;
  config.model.width = 32;
  config.model.dropout = 0;
  config.train.steps = 300;
  config.train.batch_size = 64;
  config.train.learning_rate = 3e-3;
  config.train.log_every = 100;
  config.train.evaluate_every = 1000;
  const double accuracy = train(config, folder / "run", kQuiet).evaluations.at("test").accuracy;
  EXPECT_GT(accuracy, 0.4);  // chance is 0.25
}

}  // namespace
}  // namespace topomask
