#pragma once

#include <zlib.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/internal_api.h"
#include "io/input_file.h"
#include "io/output_file.h"

namespace TOPOMASK_INTERNAL_API topomask {
namespace io {

/// In a field of four bytes: the value is in the zip64 record.
inline constexpr uint32_t kIn64 = 0xffffffff;

/// A member as the central directory describes it.
struct ZipMember {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc = 0;
  int64_t packed_bytes = 0;
  int64_t bytes = 0;
  int64_t header_offset = 0;
};

/// The members by name, zip64 included. Every offset and size is checked against the size of the file.
std::map<std::string, ZipMember> read_zip_directory(InputFile& file);

/// The bytes of a member, in order, through a fixed chunk. Its checksum is checked when the last byte is read.
class ZipMemberReader {
 public:
  ZipMemberReader(InputFile& file,
                  const ZipMember& member);  ///< refuses encryption, and methods other than stored and deflated
  ~ZipMemberReader();
  ZipMemberReader(const ZipMemberReader&) = delete;
  ZipMemberReader& operator=(const ZipMemberReader&) = delete;

  int64_t remaining() const { return member_.bytes - done_; }
  void read(char* out, size_t bytes);  ///< exactly `bytes`, at most remaining()

 private:
  void inflate_into(char* out, size_t bytes);

  InputFile& file_;
  ZipMember member_;
  std::vector<char> chunk_;
  int64_t packed_at_ = 0;  ///< where in the file
  int64_t packed_left_ = 0;
  int64_t done_ = 0;
  uint32_t crc_ = 0;
  bool deflated_ = false;
  z_stream stream_{};
};

/// Stored members, zip64 throughout, so that size makes no difference to what is written.
class ZipWriter {
 public:
  explicit ZipWriter(OutputFile& file) : file_(file) {}
  void add(const std::string& name, std::string_view head, std::string_view body);  ///< one member: head, then body
  void finish();  ///< the directory; commit the file after

 private:
  OutputFile& file_;
  std::string directory_;
  int64_t members_ = 0;
};

}  // namespace io
}  // namespace topomask
