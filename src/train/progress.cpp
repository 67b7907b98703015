#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace topomask {
namespace {

constexpr int kLongestBar = 24, kShortestBar = 6;

int terminal_width(std::FILE* terminal) {
  winsize size{};
  return ::ioctl(::fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

template <class... Args>
std::string format(const char* pattern, Args... args) {
  std::string text(256, '\0');
  text.resize(static_cast<size_t>(std::max(0, std::snprintf(text.data(), text.size(), pattern, args...))));
  return text;
}

/// As a terminal counts them: bytes that continue a character of UTF-8 are none.
int columns(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::string format_duration(double seconds) {
  const auto whole = static_cast<long>(std::max(0.0, std::round(seconds)));
  if (whole < 60) return format("%ld s", whole);
  if (whole < 3600) return format("%ld:%02ld min", whole / 60, whole % 60);
  return format("%ld:%02ld h", whole / 3600, whole / 60 % 60);
}

std::string progress_line(const std::string& title, int64_t done, int64_t total, double seconds_left, double rate,
                          const std::string& unit, const std::string& text, int width) {
  const double share = total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 1;
  const std::string counts = format("%ld/%ld", static_cast<long>(done), static_cast<long>(total));
  const std::string speed = rate > 0 ? "  " + format("%.0f %s/s", rate, unit.c_str()) : "";
  const std::string left = seconds_left > 0 ? "  " + format_duration(seconds_left) + " left" : "";
  const std::string end = text.empty() ? "" : "  " + text;
  const std::string name = title.empty() ? "" : title + " ";
  // From the line with everything to the one with the least: the first that fits.
  for (const auto& [head, tail] : {std::pair{name, speed + left + end}, {"", speed + left + end}}) {
    const int bar = std::min(width - columns(head + "[] " + counts + tail), kLongestBar);
    if (bar < kShortestBar) continue;
    const int filled = static_cast<int>(share * bar);
    return head + "[" + std::string(static_cast<size_t>(filled), '=') +
           std::string(static_cast<size_t>(bar - filled), ' ') + "] " + counts + tail;
  }
  for (const std::string& line : {counts + speed + left + end, counts + left + end, counts + end, counts}) {
    if (columns(line) <= width) return line;
  }
  return "";
}

Progress::Progress(std::string title, int64_t first, int64_t last, std::FILE* terminal)
    : title_(std::move(title)),
      first_(first),
      last_(last),
      terminal_(::isatty(::fileno(terminal)) ? terminal : nullptr),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  finish();
}

bool Progress::due() const {
  return terminal_ && (!drawn_ || std::chrono::steady_clock::now() - shown_ >= std::chrono::milliseconds(100));
}

void Progress::update(int64_t step, double rate, const std::string& unit, const std::string& text) {
  if (!due()) return;
  const auto now = std::chrono::steady_clock::now();
  // From what was done here: a run that continues did not start at 0.
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double left =
      step > first_ ? seconds * static_cast<double>(last_ - step) / static_cast<double>(step - first_) : 0;
  const std::string line = progress_line(title_, step, last_, left, rate, unit, text, terminal_width(terminal_) - 1);
  std::fprintf(terminal_, "\r%s\033[K", line.c_str());
  std::fflush(terminal_);
  shown_ = now;
  drawn_ = true;
}

void Progress::finish() {
  if (!drawn_) return;
  std::fputs("\r\033[K", terminal_);
  std::fflush(terminal_);
  drawn_ = false;
}

}  // namespace topomask
