#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/internal_api.h"
#include "io/origin.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace io {

/// Writes all of `bytes`, whatever part of them a call of write() takes. Fails naming the file and the reason.
void write_all(const Origin& origin, int descriptor, std::string_view bytes);

/// The NAME of a file called NAME.tmp.PID.N, as OutputFile calls one until it is whole; empty for any other name.
std::string_view unfinished_name(std::string_view file);

/// A file that appears under its name only when it is complete: it is written in the same folder under a temporary
/// name, flushed to the disk and renamed by commit(), which then flushes the folder, so that the name outlives a power
/// failure too. Destroyed before commit(), or where any step of it up to the rename fails, it leaves nothing behind,
/// and an earlier file of that name is untouched. Gzip where the path ends in .gz.
class OutputFile {
 public:
  explicit OutputFile(Origin origin);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void put(std::string_view bytes);
  void put(int64_t number);
  void put(double weight);  ///< the fewest digits that read back as the same number
  void put(float weight);
  int64_t bytes_put() const { return bytes_put_; }  ///< before compression

  void commit();

 private:
  template <typename Number>
  void put_number(Number number);
  void flush(bool last);

  Origin origin_;
  std::string temporary_;
  int descriptor_ = -1;
  std::string buffer_;
  int64_t bytes_put_ = 0;
  bool gzip_ = false;
  z_stream stream_{};
};

}  // namespace io
}  // namespace topomask
