#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace topomask {
namespace {

constexpr int kBarWidth = 24;

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
  const int filled = static_cast<int>(share * kBarWidth);
  std::string line =
      title + " [" + std::string(static_cast<size_t>(filled), '=') +
      std::string(static_cast<size_t>(kBarWidth - filled), ' ') + "] " +
      format("%ld/%ld  %.0f %s/s", static_cast<long>(done), static_cast<long>(total), rate, unit.c_str());
  if (seconds_left > 0) line += "  " + format_duration(seconds_left) + " left";
  if (!text.empty()) line += "  " + text;
  return line.substr(0, static_cast<size_t>(std::max(0, width)));
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

void Progress::update(int64_t step, double rate, const std::string& unit, const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || (drawn_ && now - shown_ < std::chrono::milliseconds(100))) return;
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
