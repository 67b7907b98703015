#include "activity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>

#include "core/progress_report.h"

using namespace topomask;
using namespace topomask::apps;

namespace {

std::string all_of(std::FILE* file) {
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

}  // namespace

TEST(Activity, SaysInPlainLinesWhatTakesLongAndNothingOtherwise) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  {
    Activity activity("mask", file.get());
    activity.stage("quick");
    activity.stage("sampling walks");
    std::this_thread::sleep_for(std::chrono::milliseconds(2700));
    activity.stage("quick again");
  }
  EXPECT_EQ(all_of(file.get()), "mask: sampling walks ...\n");
}

TEST(Activity, DrawsABarOnATerminalFromWhatTheLibraryReports) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) GTEST_SKIP() << "needs a pseudoterminal";
  std::FILE* file = std::fopen(::ptsname(terminal), "w");
  ASSERT_NE(file, nullptr);
  {
    Activity activity("walks", file);
    activity.stage("sampling walks");
    report_progress("walks", 1, 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(2700));
  }
  std::fclose(file);  // what was written can still be read, up to an error at the end
  std::string text;
  char part[512];
  for (ssize_t count = 0; (count = ::read(terminal, part, sizeof(part))) > 0;) text.append(part, count);
  ::close(terminal);
  EXPECT_NE(text.find("walks: sampling walks [============            ]"), std::string::npos) << text;
  EXPECT_NE(text.find("left"), std::string::npos) << text;
  EXPECT_EQ(text.substr(text.size() - 4), "\r\033[K") << "the line is removed";
}
