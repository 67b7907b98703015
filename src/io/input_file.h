#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/internal_api.h"
#include "io/origin.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace io {

/// The most bytes one byte of a deflate stream can become.
inline constexpr int64_t kLargestDeflateRatio = 1032;

/// The size of a reader's buffers. The fuzzers are built with a smaller one, so that their short inputs cross the end
/// of a buffer as often as long files do.
#ifndef TOPOMASK_READ_BUFFER
#define TOPOMASK_READ_BUFFER (1 << 18)
#endif
inline constexpr size_t kReadBuffer = TOPOMASK_READ_BUFFER;

/// A file open for reading. Directories are refused; pipes work, without a known size.
class InputFile {
 public:
  explicit InputFile(Origin origin);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const Origin& origin() const { return origin_; }
  std::optional<int64_t> size() const { return size_; }   ///< none for a pipe or device
  size_t read(char* out, size_t bytes);                   ///< up to `bytes` of what follows; 0 at the end
  void read_at(int64_t offset, char* out, size_t bytes);  ///< exactly `bytes`; a file that ends before is an error

 private:
  Origin origin_;
  int descriptor_ = -1;
  std::optional<int64_t> size_;
};

/// The bytes of a file, inflated where it starts as gzip does. Holds two fixed chunks, whatever sizes the file states.
class ByteSource {
 public:
  explicit ByteSource(Origin origin);
  ~ByteSource();

  const Origin& origin() const { return file_.origin(); }
  /// Fills `out` as far as the content goes; fewer than `bytes` only at the end.
  size_t read(char* out, size_t bytes);
  /// Whether the content can be `bytes` long, by the size of the file. True where that is unknown.
  bool can_hold(int64_t bytes) const;

 private:
  size_t read_plain(char* out, size_t bytes);
  size_t read_gzip(char* out, size_t bytes);
  bool next_member();
  bool more_input();

  InputFile file_;
  std::vector<unsigned char> chunk_;
  size_t chunk_at_ = 0;
  size_t chunk_end_ = 0;
  bool gzip_ = false;
  bool finished_ = false;
  z_stream stream_{};
};

}  // namespace io
}  // namespace topomask
