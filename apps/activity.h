#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "core/progress_report.h"

namespace topomask::apps {

/// Reports on stderr what a command is doing once that takes longer than two seconds: on a terminal a line with a bar
/// that is written over, elsewhere one plain line for each stage that takes so long. A quick command prints nothing.
///
/// While it lives it listens to the library's own reports of progress on this thread.
class Activity {
 public:
  explicit Activity(std::string command, std::FILE* out = stderr);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  void stage(std::string what);  ///< what begins now: "sampling walks"
  void at(double share);         ///< how much of it is done, 0 … 1
  void finish();                 ///< ends the report, and removes the line

  /// What begins now and shows its own progress: it is named in errors only.
  void quietly(std::string what);
  std::string doing() const;  ///< what began last

  /// Prints a line on stderr before a command starts on something large: "walks: about 3.2e+09 steps, …".
  void announce(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  void watch();  ///< the thread that writes
  void draw(double seconds);
  void clear();  ///< removes the line, where there is one
  std::string line(double seconds, size_t width) const;

  const std::string command_;
  std::FILE* const out_;
  const bool terminal_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string stage_;
  double share_ = -1;  // unknown
  Clock::time_point start_ = Clock::now();
  bool quiet_ = false, said_ = false, drawn_ = false, ended_ = false;
  ProgressListener listener_;
  std::thread thread_;
};

/// "3.2 GiB"
std::string as_bytes(double bytes);

/// Memory that the system can still give, in bytes; 0 where it does not say.
double free_memory();

}  // namespace topomask::apps
