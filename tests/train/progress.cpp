#include "train/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../data/files.h"
#include "train/run_testing.h"

namespace topomask::testing {
namespace {

/// A terminal of so many columns that keeps what is written to it.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    winsize size{.ws_row = 24, .ws_col = columns};
    TORCH_CHECK(::openpty(&reader_, &writer, nullptr, nullptr, &size) == 0);
    ::fcntl(reader_, F_SETFL, O_NONBLOCK);
  }
  ~Terminal() {
    ::close(reader_);
    ::close(writer);
  }
  std::string text() const {
    std::string all;
    char part[4096];
    for (ssize_t got = 0; (got = ::read(reader_, part, sizeof(part))) > 0;) all.append(part, static_cast<size_t>(got));
    return all;
  }

  int writer = -1;

 private:
  int reader_ = -1;
};

std::string line(int width, double left = 187, const std::string& title = "run") {
  return progress_line(title, 50, 100, left, 1234.4, "images", "loss 0.5000", width);
}

TEST(Progress, SaysHowFastAndHowLong) {
  EXPECT_EQ(line(200), "run [============            ] 50/100  1234 images/s  3:07 min left  loss 0.5000");
  EXPECT_EQ(progress_line("run", 0, 100, 0, 0, "images", "", 80), "run [                        ] 0/100");
  EXPECT_EQ(format_duration(47.4), "47 s");
  EXPECT_EQ(format_duration(7500), "2:05 h");
}

TEST(Progress, FitsTheTerminalAndCutsNoNumber) {
  EXPECT_EQ(line(79), "run [===========            ] 50/100  1234 images/s  3:07 min left  loss 0.5000");
  EXPECT_EQ(line(60), "[====    ] 50/100  1234 images/s  3:07 min left  loss 0.5000");
  EXPECT_EQ(line(55), "50/100  1234 images/s  3:07 min left  loss 0.5000");
  EXPECT_EQ(line(40), "50/100  3:07 min left  loss 0.5000");
  EXPECT_EQ(line(25), "50/100  loss 0.5000");
  EXPECT_EQ(line(10), "50/100");
  EXPECT_EQ(line(3), "");
  EXPECT_EQ(line(70, 187, "a run of a long name"),
            "[=========         ] 50/100  1234 images/s  3:07 min left  loss 0.5000");
  EXPECT_EQ(line(80, 187, "Größe"), "Größe [===========           ] 50/100  1234 images/s  3:07 min left  loss 0.5000");
  for (int width = 6; width < 100; ++width) {
    const std::string text = line(width);
    EXPECT_LE(std::ssize(text), width);
    EXPECT_NE(text.find("50/100"), std::string::npos) << text;
    EXPECT_EQ(text.ends_with("loss 0.5000"), width >= 19) << text;
  }
}

TEST(Progress, IsQuietWhereThereIsNoTerminal) {
  const TemporaryFolder folder;
  std::FILE* file = std::fopen((folder / "out").c_str(), "w");
  {
    Progress progress("run", 0, 10, file);
    EXPECT_FALSE(progress.due());
    progress.update(5, 1, "images");
  }
  std::fclose(file);
  EXPECT_EQ(read_file(folder / "out"), "");
}

TEST(Progress, OfARunIsThereFromTheFirstStep) {
  const ScratchFolder folder;
  RunConfig config = small_run("linear");
  config.train.steps = 3;
  config.train.log_every = 50;
  const Terminal terminal(60);
  const int own = ::dup(STDERR_FILENO);
  ::dup2(terminal.writer, STDERR_FILENO);
  TrainHooks hooks;
  std::string before_first_step;
  hooks.stop = [&](int64_t step) {
    if (step == 1) before_first_step = terminal.text();
    return false;
  };
  train(config, folder / "run", hooks);
  ::dup2(own, STDERR_FILENO);
  ::close(own);
  EXPECT_NE(before_first_step.find(" 0/3"), std::string::npos) << before_first_step;
}

}  // namespace
}  // namespace topomask::testing
