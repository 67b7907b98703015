#include "activity.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "train/progress.h"

namespace topomask::apps {
namespace {

constexpr auto kPatience = std::chrono::seconds(2);
constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr size_t kBar = 24;

size_t columns_of(std::FILE* terminal) {
  winsize size{};
  return ::ioctl(::fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U : 79U;
}

}  // namespace

Activity::Activity(std::string command, std::FILE* out)
    : command_(std::move(command)),
      out_(out),
      terminal_(::isatty(::fileno(out)) != 0),
      listener_([this](const char* what, int64_t done, int64_t total) {
        // The walks of a suggestion's trials are not what is waited for.
        if (command_ != "suggest" || std::string(what) == "suggest") {
          at(static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, total)));
        }
      }),
      thread_([this] { watch(); }) {}

Activity::~Activity() {
  finish();
}

void Activity::finish() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
  clear();
}

void Activity::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", out_);
  std::fflush(out_);
  drawn_ = false;
}

void Activity::stage(std::string what) {
  const std::lock_guard lock(mutex_);
  stage_ = std::move(what);
  share_ = -1;
  start_ = Clock::now();
  quiet_ = said_ = false;
}

void Activity::quietly(std::string what) {
  const std::lock_guard lock(mutex_);
  clear();
  stage_ = std::move(what);
  quiet_ = true;
}

std::string Activity::doing() const {
  const std::lock_guard lock(mutex_);
  return stage_;
}

void Activity::announce(const std::string& text) {
  const std::lock_guard lock(mutex_);
  clear();
  std::fprintf(out_, "%s: %s\n", command_.c_str(), text.c_str());
  std::fflush(out_);
}

void Activity::at(double share) {
  const std::lock_guard lock(mutex_);
  share_ = std::clamp(share, 0.0, 1.0);
}

void Activity::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kRedraw, [this] { return ended_; })) {
    const auto passed = Clock::now() - start_;
    if (stage_.empty() || quiet_ || (passed < kPatience && !drawn_)) continue;
    draw(std::chrono::duration<double>(passed).count());
  }
}

void Activity::draw(double seconds) {
  if (terminal_) {
    std::fprintf(out_, "\r%s\033[K", line(seconds, columns_of(out_)).c_str());
    drawn_ = true;
  } else if (!said_) {
    std::fprintf(out_, "%s: %s ...\n", command_.c_str(), stage_.c_str());
    said_ = true;
  }
  std::fflush(out_);
}

std::string Activity::line(double seconds, size_t width) const {
  std::string text = command_ + ": " + stage_;
  if (share_ >= 0) {
    const auto filled = static_cast<size_t>(share_ * kBar);
    text += " [" + std::string(filled, '=') + std::string(kBar - filled, ' ') + "]";
  }
  text += "  " + format_duration(seconds);
  if (share_ > 0.01) text += ", about " + format_duration(seconds * (1 - share_) / share_) + " left";
  return text.substr(0, width);
}

std::string as_bytes(double bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
  return text;
}

double free_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return std::stod(line.substr(13)) * 1024;
  }
  return 0;
}

}  // namespace topomask::apps
