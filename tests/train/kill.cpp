// Runs in processes of their own, ended by SIGKILL.

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "support/compare.h"
#include "train/run_testing.h"

extern char** environ;

namespace topomask::testing {
namespace {

namespace fs = std::filesystem;
using Milliseconds = std::chrono::milliseconds;

RunConfig run_to_kill(int64_t steps) {
  RunConfig config = small_run();
  config.train.steps = steps;
  config.train.log_every = 7;         // most kills land inside of an interval
  config.train.checkpoint_every = 1;  // much of the time is spent writing: that is where kills should land
  return config;
}

/// What the tests below start in a process of its own.
TEST(TrainChild, TrainsWhereTold) {
  const char *run_dir = std::getenv("TOPOMASK_TEST_RUN_DIR"), *steps = std::getenv("TOPOMASK_TEST_STEPS");
  if (run_dir == nullptr || steps == nullptr) GTEST_SKIP() << "only in the process that another test starts";
  const OneThread one;
  train(run_to_kill(std::atoll(steps)), run_dir, kQuiet);
}

class Child {
 public:
  Child(const fs::path& run_dir, int64_t steps) {
    ::setenv("TOPOMASK_TEST_RUN_DIR", run_dir.c_str(), 1);
    ::setenv("TOPOMASK_TEST_STEPS", std::to_string(steps).c_str(), 1);
    char program[] = "/proc/self/exe", filter[] = "--gtest_filter=TrainChild.*", brief[] = "--gtest_brief=1";
    char* arguments[] = {program, filter, brief, nullptr};
    TORCH_CHECK(::posix_spawn(&process_, program, nullptr, nullptr, arguments, environ) == 0);
    ::unsetenv("TOPOMASK_TEST_RUN_DIR");
    ::unsetenv("TOPOMASK_TEST_STEPS");
  }
  bool ended() { return ended_ || (ended_ = ::waitpid(process_, &status_, WNOHANG) == process_); }
  void kill() {
    if (ended()) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, &status_, 0);
    ended_ = true;
  }
  bool was_killed() const { return WIFSIGNALED(status_) && WTERMSIG(status_) == SIGKILL; }
  bool succeeded() const { return WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }

 private:
  pid_t process_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

fs::file_time_type written(const fs::path& path) {
  return fs::exists(path) ? fs::last_write_time(path) : fs::file_time_type();
}

/// Kills the run at `kills` random moments: of three, one while the program starts, reads the checkpoint or trims its
/// metrics, the others when it has made progress. Then lets it end.
void kill_and_continue(const fs::path& run_dir, int64_t steps, int kills) {
  std::mt19937 random(20240);
  const fs::path checkpoint = run_dir / kCheckpointName;
  int64_t last_step = -1;
  Milliseconds start_up{3000};  // the shortest that a process took until its first checkpoint
  for (int kill = 0; kill < kills; ++kill) {
    const auto before = written(checkpoint);
    const auto start = std::chrono::steady_clock::now();
    const bool early = kill % 3 == 2;
    const auto within = [&](Milliseconds most) {
      return Milliseconds(std::uniform_int_distribution<int64_t>(0, most.count())(random));
    };
    Child child(run_dir, steps);
    if (early) {
      std::this_thread::sleep_for(within(start_up));
    } else {
      while (written(checkpoint) == before && !child.ended()) std::this_thread::sleep_for(Milliseconds(1));
      start_up = std::min(start_up, std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - start));
      std::this_thread::sleep_for(within(Milliseconds(60)));
    }
    child.kill();
    ASSERT_TRUE(child.was_killed()) << "after " << kill << " kills";
    ASSERT_TRUE(last_step < 0 || fs::exists(checkpoint));
    if (!fs::exists(checkpoint)) continue;
    const int64_t step = load_checkpoint(checkpoint).step;  // throws where it cannot be read
    EXPECT_GE(step, last_step);
    last_step = step;
  }
  EXPECT_LT(last_step, steps);
  Child child(run_dir, steps);
  while (!child.ended()) std::this_thread::sleep_for(Milliseconds(10));
  ASSERT_TRUE(child.succeeded());
}

void expect_no_trace(int64_t steps, int kills) {
  // In memory where possible: a kill does not depend on the disk, and flushing hundreds of checkpoints takes long.
  const ScratchFolder folder(fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path());
  kill_and_continue(folder / "killed", steps, kills);
  if (::testing::Test::HasFatalFailure()) return;
  RunConfig straight = run_to_kill(steps);
  straight.train.checkpoint_every = 0;
  const OneThread one;
  train(straight, folder / "straight", kQuiet);
  expect_same_run(folder / "straight", folder / "killed");
  for (const auto& entry : fs::directory_iterator(folder / "killed")) {
    EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << entry.path();
  }
}

TEST(Kill, ARunKilledThreeTimesEndsBitForBitAsOneThatWasNot) {
  expect_no_trace(/*steps=*/40, /*kills=*/3);
}

TEST(KillSlow, ARunKilledAtFiftyMomentsEndsBitForBitAsOneThatWasNot) {
  expect_no_trace(/*steps=*/400, /*kills=*/50);
}

}  // namespace
}  // namespace topomask::testing
