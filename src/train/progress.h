#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// A line on stderr that is written over: bar, throughput, time left. It is there from the start. Nothing is written
/// where stderr is no terminal.
class Progress {
 public:
  Progress(std::string title, int64_t first, int64_t last, std::FILE* terminal = stderr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether an update would be drawn: at first, then ten times a second, where there is a terminal.
  bool due() const;
  /// Draws the line where that is due. `rate` in `unit` a second, not shown where it is 0; `text` is put at the end
  /// ("loss 1.23").
  void update(int64_t step, double rate, const std::string& unit, const std::string& text = {});
  void finish();  ///< removes the line; the next update draws it again

 private:
  std::string title_;
  int64_t first_, last_;
  std::FILE* terminal_;  // null where nothing is shown
  std::chrono::steady_clock::time_point start_, shown_;
  bool drawn_ = false;
};

/// The line that Progress shows, in `width` columns. Where they are too few, the bar becomes shorter, and then title,
/// bar, throughput and time left go, in this order; no number is ever cut.
std::string progress_line(const std::string& title, int64_t done, int64_t total, double seconds_left, double rate,
                          const std::string& unit, const std::string& text, int width);

/// "47 s", "3:07 min", "2:05 h".
std::string format_duration(double seconds);

}  // namespace topomask
