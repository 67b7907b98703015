#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/internal_api.h"
#include "io/append_file.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// A file that TensorBoard reads: records of an Event message, each with its length and masked CRC-32C checksums.
class EventFile {
 public:
  explicit EventFile(const std::filesystem::path& folder);  ///< events.out.tfevents.TIME.HOST.PROCESS in it

  void scalar(const std::string& tag, int64_t step, double value);
  void flush();                   ///< into the file
  void sync() { file_->sync(); }  ///< what was flushed, onto the disk
  const std::filesystem::path& path() const { return path_; }

 private:
  void record(const std::string& event);

  std::filesystem::path path_;
  std::optional<io::AppendFile> file_;
  std::string waiting_;  // records since the last flush
};

/// CRC-32C (Castagnoli) of the bytes.
uint32_t crc32c(std::string_view bytes);

}  // namespace topomask
