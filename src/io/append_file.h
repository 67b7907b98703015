#pragma once

#include <cstdint>
#include <string_view>

#include "core/internal_api.h"
#include "io/origin.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace io {

/// A file that grows by whole records, for logs. What was appended is in the file, though not yet on the disk, when
/// append() returns: it outlives the process, and after sync() a power failure.
class AppendFile {
 public:
  enum class Start { keep, empty };  ///< what a file of that name holds is kept, or dropped

  AppendFile(Origin origin, Start start);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// All of `record` or, where that fails, nothing of it: the part that was written is cut off again.
  void append(std::string_view record);
  void sync();  ///< where anything was appended since the last time

 private:
  Origin origin_;
  int descriptor_ = -1;
  int64_t size_ = 0;
  bool synced_ = true;
};

}  // namespace io
}  // namespace topomask
