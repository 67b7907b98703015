#include <cstring>

#include "io/checksum.h"
#include "io/zip_archive.h"

namespace topomask::io {
namespace {

constexpr uint16_t kVersion = 45;  // the first with zip64
constexpr uint16_t kDate1980 = (1 << 5) | 1;

void append(std::string&) {}

template <typename T, typename... Rest>
void append(std::string& out, T value, Rest... rest) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
  append(out, rest...);
}

}  // namespace

void ZipWriter::add(const std::string& name, std::string_view head, std::string_view body) {
  const auto offset = static_cast<uint64_t>(file_.bytes_put());
  const uint64_t bytes = head.size() + body.size();
  const uint32_t crc = extend_crc(extend_crc(0, head), body);
  const auto name_bytes = static_cast<uint16_t>(name.size());
  constexpr uint16_t kNone = 0, kZip64 = 0x0001;

  std::string local;
  append(local, uint32_t{0x04034b50}, kVersion, kNone, kNone, kNone, kDate1980, crc, kIn64, kIn64, name_bytes,
         uint16_t{20});
  local += name;
  append(local, kZip64, uint16_t{16}, bytes, bytes);
  file_.put(local);
  file_.put(head);
  file_.put(body);

  append(directory_, uint32_t{0x02014b50}, kVersion, kVersion, kNone, kNone, kNone, kDate1980, crc, kIn64, kIn64,
         name_bytes, uint16_t{28}, kNone, kNone, kNone, uint32_t{0}, kIn64);
  directory_ += name;
  append(directory_, kZip64, uint16_t{24}, bytes, bytes, offset);
  ++members_;
}

void ZipWriter::finish() {
  const auto offset = static_cast<uint64_t>(file_.bytes_put());
  const uint64_t bytes = directory_.size(), members = static_cast<uint64_t>(members_);
  const auto few = static_cast<uint16_t>(members_);
  std::string end;
  append(end, uint32_t{0x06064b50}, uint64_t{44}, kVersion, kVersion, uint32_t{0}, uint32_t{0}, members, members, bytes,
         offset);
  append(end, uint32_t{0x07064b50}, uint32_t{0}, offset + bytes, uint32_t{1});
  append(end, uint32_t{0x06054b50}, uint16_t{0}, uint16_t{0}, few, few, static_cast<uint32_t>(bytes), kIn64,
         uint16_t{0});
  file_.put(directory_);
  file_.put(end);
}

}  // namespace topomask::io
