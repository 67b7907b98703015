// Compiled into test programs, and as a library for LD_PRELOAD (see tests/CMakeLists.txt), which takes folder, number
// of the call and mode (fail, shorten or dribble; fail where it is not set) from TOPOMASK_FAIL_FOLDER,
// TOPOMASK_FAIL_CALL and TOPOMASK_FAIL_MODE.

#include "support/failing_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>

namespace topomask::testing {
namespace {

struct State {
  std::string folder;
  int64_t call;
  FailingCalls::Mode mode;
  int64_t seen = 0;
  bool full = false;
  std::string failed = {}, reason = {};
};

std::mutex mutex;
std::optional<State> state;  // only while a FailingCalls lives, or where the environment says so

/// The libc's function: `own` is a pointer to the definition here, for its type.
template <class Function>
Function* real(const char* name, Function* /*own*/) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string path_of(int descriptor) {
  char link[64], path[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  const ssize_t length = ::readlink(link, path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : "";
}

/// 0: the call is to be made. Otherwise the error to report, and for `take`, how many of a write's bytes to write.
int error_for(const char* name, const std::string& path, int error, size_t* take = nullptr) {
  const std::lock_guard lock(mutex);
  if (!state || !path.starts_with(state->folder)) return 0;
  const bool chosen = ++state->seen == state->call;
  const bool of_folder = path.size() <= state->folder.size() + 1;
  if (take && state->mode == FailingCalls::Mode::dribble) *take = *take > 1 ? *take - 1 : *take;
  if (take && state->mode == FailingCalls::Mode::shorten && chosen) {
    state->full = true;
    *take /= 2;
    if (*take > 0) return 0;
  }
  const bool fails = state->mode == FailingCalls::Mode::fail ? chosen : take && state->full;
  if (!fails) return 0;
  state->full = false;
  state->failed = std::string(name) + (of_folder ? " folder" : "");
  state->reason = std::strerror(error);
  return error;
}

FailingCalls::Mode mode_of(const char* name) {
  using Mode = FailingCalls::Mode;
  const std::string mode = name ? name : "fail";
  if (mode != "fail" && mode != "shorten" && mode != "dribble") {
    std::fprintf(stderr, "TOPOMASK_FAIL_MODE must be fail, shorten or dribble, got %s\n", mode.c_str());
    std::abort();
  }
  return mode == "fail" ? Mode::fail : mode == "shorten" ? Mode::shorten : Mode::dribble;
}

[[maybe_unused]] const bool from_environment = [] {
  const char *folder = std::getenv("TOPOMASK_FAIL_FOLDER"), *call = std::getenv("TOPOMASK_FAIL_CALL");
  if (folder && call) state = State{folder, std::atoll(call), mode_of(std::getenv("TOPOMASK_FAIL_MODE"))};
  return true;
}();

}  // namespace

FailingCalls::FailingCalls(const std::string& folder, int64_t call, Mode mode) {
  const std::lock_guard lock(mutex);
  state = State{.folder = folder, .call = call, .mode = mode};
}

FailingCalls::~FailingCalls() {
  const std::lock_guard lock(mutex);
  state.reset();
}

int64_t FailingCalls::calls() {
  const std::lock_guard lock(mutex);
  return state->seen;
}

std::string FailingCalls::failed() {
  const std::lock_guard lock(mutex);
  return state->failed;
}

std::string FailingCalls::reason() {
  const std::lock_guard lock(mutex);
  return state->reason;
}

}  // namespace topomask::testing

using topomask::testing::error_for;
using topomask::testing::path_of;
using topomask::testing::real;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  const bool writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_DIRECTORY;
  if (const int error = writes ? error_for("open", path, flags & O_DIRECTORY ? EMFILE : ENOSPC) : 0) {
    errno = error;
    return -1;
  }
  static auto* const next = real("open", &::open);
  return next(path, flags, mode);
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  size_t take = count;
  if (const int error = error_for("write", path_of(descriptor), ENOSPC, &take)) {
    errno = error;
    return -1;
  }
  static auto* const next = real("write", &::write);
  return next(descriptor, bytes, take);
}

int fsync(int descriptor) {
  if (const int error = error_for("fsync", path_of(descriptor), EIO)) {
    errno = error;
    return -1;
  }
  static auto* const next = real("fsync", &::fsync);
  return next(descriptor);
}

int close(int descriptor) {
  const std::string path = path_of(descriptor);
  static auto* const next = real("close", &::close);
  const int status = next(descriptor);  // a close that reports an error has closed all the same
  // Folders and logs are closed where nothing can be reported any more.
  const bool counts = path.find(".tmp.") != std::string::npos;
  if (const int error = counts ? error_for("close", path, EIO) : 0) {
    errno = error;
    return -1;
  }
  return status;
}

int rename(const char* from, const char* to) noexcept {
  if (const int error = error_for("rename", to, EACCES)) {
    errno = error;
    return -1;
  }
  static auto* const next = real("rename", &::rename);
  return next(from, to);
}
}
