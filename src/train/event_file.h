#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace topomask {

/// A file that TensorBoard reads: records of an Event message, each with its length and masked CRC-32C checksums.
class EventFile {
 public:
  explicit EventFile(const std::filesystem::path& folder);  ///< events.out.tfevents.TIME.HOST.PROCESS in it

  void scalar(const std::string& tag, int64_t step, double value);
  void flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  void record(const std::string& event);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// CRC-32C (Castagnoli) of the bytes.
uint32_t crc32c(std::string_view bytes);

}  // namespace topomask
