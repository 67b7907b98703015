#pragma once

#include <cstdint>
#include <string>

namespace topomask::testing {

/// Makes one system call of this process fail, while it lives: the `call`-th (from 1) of those that write below
/// `folder`, which are open for writing, open of a folder, write, fsync, close and rename. The program's own
/// definitions of these functions (failing_calls.cpp) stand before libc's, for calls from shared libraries too, so it
/// is the library as users have it that is tested. One at a time.
class FailingCalls {
 public:
  /// fail: the call does nothing and reports a full disk or a broken one. shorten: a write takes half of its bytes, and
  /// the disk is full for the write after it; other calls succeed. dribble: every write takes one byte less than asked.
  enum class Mode { fail, shorten, dribble };

  FailingCalls(const std::string& folder, int64_t call, Mode mode);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  static int64_t calls();       ///< seen so far
  static std::string failed();  ///< "fsync", "fsync folder", …; empty where none did
  static std::string reason();  ///< what strerror says of it
};

}  // namespace topomask::testing
