// A full disk, a short write, a failed fsync, close or rename, at every call in turn.

#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/surviving_file.h"
#include "topomask/data/image.h"
#include "train/metrics.h"
#include "train/run_testing.h"

namespace topomask::testing {
namespace {

namespace fs = std::filesystem;

RunConfig short_run() {
  RunConfig config = small_run("linear");
  config.train.steps = 3;
  config.train.log_every = 2;
  config.train.checkpoint_every = 1;
  return config;
}

TEST(FailingWrites, LeaveTheOldCheckpoint) {
  const ScratchFolder folder;
  const fs::path path = folder / kCheckpointName;
  at::manual_seed(1);
  Checkpoint checkpoint{.step = 1, .config = "{}", .model = {{"weight", at::randn({300, 500})}}};
  save_checkpoint(checkpoint, path);
  checkpoint.step = 2;
  expect_old_file_survives(path, [&] { save_checkpoint(checkpoint, path); });
  EXPECT_EQ(load_checkpoint(path).step, 2);
}

TEST(FailingWrites, LeaveTheOldPicture) {
  const ScratchFolder folder;
  const std::string path = (folder / "picture.png").string();
  write_png(path, at::zeros({3, 4, 4}, at::kByte));
  expect_old_file_survives(path, [&] { write_png(path, at::ones({3, 40, 40}, at::kByte)); });
}

TEST(FailingWrites, LeaveTheLinesOfMetricsThatWereThere) {
  using Mode = FailingCalls::Mode;
  const EvalMetrics line{.step = 2, .split = "test", .loss = 0.5, .accuracy = 0.25};
  for (const Mode mode : {Mode::fail, Mode::shorten, Mode::dribble}) {
    bool done = false;
    for (int64_t call = 1; !done; ++call) {
      const ScratchFolder folder;
      { MetricsLog(folder.path).write(EvalMetrics{.step = 1, .split = "test"}); }
      const std::string before = content_of(folder / "metrics.jsonl");
      const FailingCalls failing(folder.path.string(), call, mode);
      std::string error;
      try {
        MetricsLog log(folder.path, 1);
        log.write(line);
        log.sync();
      } catch (const std::exception& thrown) {
        error = thrown.what();
      }
      SCOPED_TRACE("call " + std::to_string(call) + ", " + FailingCalls::failed());
      done = FailingCalls::calls() < call || mode == Mode::dribble;
      EXPECT_EQ(error.empty(), FailingCalls::failed().empty()) << error;
      if (!error.empty()) {
        EXPECT_NE(error.find(folder.path.string()), std::string::npos) << error;
        EXPECT_NE(error.find(FailingCalls::reason()), std::string::npos) << error;
      }
      const std::string after = content_of(folder / "metrics.jsonl");
      EXPECT_TRUE(after.starts_with(before));
      EXPECT_TRUE(after == before || read_metrics(folder.path).eval.size() == 2) << after;  // whole lines, or none
      for (const auto& entry : fs::directory_iterator(folder.path)) {
        EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
      }
    }
  }
}

TEST(FailingWritesSlow, ARunGoesOnFromAnyOfThemAsIfNothingHadHappened) {
  const OneThread one;
  const ScratchFolder folder;
  train(short_run(), folder / "straight", kQuiet);
  for (const auto mode : {FailingCalls::Mode::fail, FailingCalls::Mode::shorten}) {
    for (int64_t call = 1;; ++call) {
      const fs::path run = folder / c10::str("run", static_cast<int>(mode), "-", call);
      std::string error, failed, reason;
      int64_t seen = 0;
      {
        const FailingCalls failing(run.string(), call, mode);
        try {
          train(short_run(), run, kQuiet);
        } catch (const std::exception& thrown) {
          error = thrown.what();
        }
        failed = FailingCalls::failed();
        reason = FailingCalls::reason();
        seen = FailingCalls::calls();
      }
      if (seen < call) break;
      SCOPED_TRACE("call " + std::to_string(call) + ", " + failed);
      EXPECT_EQ(error.empty(), failed.empty()) << error;
      if (!failed.empty()) {
        EXPECT_NE(error.find(run.string()), std::string::npos) << error;
        EXPECT_NE(error.find(reason), std::string::npos) << error;
      }
      for (const auto& entry : fs::directory_iterator(run)) {
        EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
      }
      EXPECT_TRUE(train(short_run(), run, kQuiet).finished);
      expect_same_run(folder / "straight", run);
      fs::remove_all(run);
    }
  }
}

}  // namespace
}  // namespace topomask::testing
