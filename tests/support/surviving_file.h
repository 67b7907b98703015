#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "support/failing_calls.h"

namespace topomask::testing {

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// `write` replaces the file at `path`, alone in its folder, by another. Each of its system calls fails in turn: it
/// must report that with the file and the reason, leave the old file as it was and no other file next to it. Only where
/// the folder cannot be flushed is the new file in place already, whole.
inline void expect_old_file_survives(const std::filesystem::path& path, const std::function<void()>& write) {
  const std::string folder = path.parent_path().string(), old = content_of(path);
  ASSERT_FALSE(old.empty());
  write();
  const std::string fresh = content_of(path);
  ASSERT_NE(fresh, old);
  const auto put_old = [&] { std::ofstream(path, std::ios::binary) << old; };
  for (const auto mode : {FailingCalls::Mode::fail, FailingCalls::Mode::shorten}) {
    for (int64_t call = 1; call < 10'000; ++call) {
      put_old();
      std::string error, failed, reason;
      int64_t seen = 0;
      {
        const FailingCalls failing(folder, call, mode);
        try {
          write();
        } catch (const std::exception& thrown) {
          error = thrown.what();
        }
        failed = FailingCalls::failed();
        reason = FailingCalls::reason();
        seen = FailingCalls::calls();
      }
      if (seen < call) {
        EXPECT_GE(seen, 6) << "open, write, fsync, close, rename and fsync of the folder";
        break;
      }
      SCOPED_TRACE("call " + std::to_string(call) + ", " + failed);
      if (failed.empty()) {
        EXPECT_EQ(error, "");  // this mode leaves calls other than write alone
      } else {
        EXPECT_NE(error.find(path.string()), std::string::npos) << error;
        EXPECT_NE(error.find(reason), std::string::npos) << error;
      }
      EXPECT_TRUE(content_of(path) == (failed.empty() || failed == "fsync folder" ? fresh : old));
      for (const auto& entry : std::filesystem::directory_iterator(folder)) EXPECT_EQ(entry.path(), path);
    }
  }
  put_old();
  const FailingCalls dribbling(folder, 1, FailingCalls::Mode::dribble);
  write();
  EXPECT_TRUE(content_of(path) == fresh);
}

}  // namespace topomask::testing
