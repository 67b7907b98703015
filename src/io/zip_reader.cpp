#include <algorithm>
#include <cstring>
#include <utility>

#include "io/zip_archive.h"

namespace topomask::io {
namespace {

constexpr int64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46, kLocalBytes = 30;
constexpr int64_t kLongestComment = 0xffff;
constexpr int64_t kLargestDirectory = int64_t{1} << 26;
constexpr uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50, kEntryMark = 0x02014b50,
                   kLocalMark = 0x04034b50;

template <typename T>
T field(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

struct Directory {
  int64_t offset = 0;
  int64_t bytes = 0;
};

int64_t checked(const InputFile& file, uint64_t value, const char* what) {
  if (value > static_cast<uint64_t>(*file.size()))
    fail(file.origin(), "not a valid zip archive: ", what, " is past the end");
  return static_cast<int64_t>(value);
}

Directory find_directory(InputFile& file) {
  const int64_t size = file.size().value_or(-1);
  if (size < 0) fail(file.origin(), "a zip archive must be a regular file");
  const int64_t tail_bytes = std::min(size, kEndBytes + kLongestComment);
  std::vector<char> tail(static_cast<size_t>(tail_bytes));
  file.read_at(size - tail_bytes, tail.data(), tail.size());
  int64_t at = tail_bytes - kEndBytes;
  const auto is_end = [&](int64_t i) {
    // The comment must reach exactly to the end of the file, or the mark is part of a comment.
    return field<uint32_t>(&tail[i]) == kEndMark && i + kEndBytes + field<uint16_t>(&tail[i + 20]) == tail_bytes;
  };
  while (at >= 0 && !is_end(at)) --at;
  if (at < 0) fail(file.origin(), size == 0 ? "the file is empty" : "not a zip archive, or cut short");
  const char* end = &tail[at];
  uint64_t bytes = field<uint32_t>(end + 12), offset = field<uint32_t>(end + 16);
  const int64_t locator_at = size - tail_bytes + at - kLocatorBytes;
  if ((bytes == kIn64 || offset == kIn64 || field<uint16_t>(end + 10) == 0xffff) && locator_at >= 0) {
    char locator[kLocatorBytes];
    file.read_at(locator_at, locator, sizeof(locator));
    if (field<uint32_t>(locator) == kLocatorMark) {
      char end64[kEnd64Bytes];
      file.read_at(checked(file, field<uint64_t>(locator + 8), "the zip64 directory end"), end64, sizeof(end64));
      if (field<uint32_t>(end64) != kEnd64Mark) fail(file.origin(), "not a valid zip archive: no zip64 directory end");
      bytes = field<uint64_t>(end64 + 40);
      offset = field<uint64_t>(end64 + 48);
    }
  }
  const Directory directory{checked(file, offset, "the directory"), checked(file, bytes, "the directory")};
  checked(file, offset + bytes, "the directory");
  if (directory.bytes > kLargestDirectory) fail(file.origin(), "the directory of the zip archive is over 64 MiB");
  return directory;
}

// Sizes that do not fit 32 bits stand in the zip64 extra field, in this order and only where the short field says so.
void read_zip64(const InputFile& file, std::string_view extra, uint64_t& bytes, uint64_t& packed, uint64_t& offset) {
  while (extra.size() >= 4) {
    const auto id = field<uint16_t>(extra.data());
    const size_t length = field<uint16_t>(extra.data() + 2);
    extra.remove_prefix(4);
    if (length > extra.size()) break;
    std::string_view values = extra.substr(0, length);
    extra.remove_prefix(length);
    if (id != 0x0001) continue;
    for (uint64_t* value : {&bytes, &packed, &offset}) {
      if (*value != kIn64) continue;
      if (values.size() < 8) fail(file.origin(), "not a valid zip archive: a zip64 field is too short");
      *value = field<uint64_t>(values.data());
      values.remove_prefix(8);
    }
  }
}

}  // namespace

std::map<std::string, ZipMember> read_zip_directory(InputFile& file) {
  const Directory directory = find_directory(file);
  std::vector<char> bytes(static_cast<size_t>(directory.bytes));
  file.read_at(directory.offset, bytes.data(), bytes.size());
  std::map<std::string, ZipMember> members;
  std::string_view rest(bytes.data(), bytes.size());
  while (!rest.empty()) {
    if (rest.size() < kEntryBytes || field<uint32_t>(rest.data()) != kEntryMark) {
      fail(file.origin(), "not a valid zip archive: the directory is damaged");
    }
    const char* entry = rest.data();
    const size_t name = field<uint16_t>(entry + 28), extra = field<uint16_t>(entry + 30),
                 comment = field<uint16_t>(entry + 32);
    if (rest.size() < kEntryBytes + name + extra + comment) {
      fail(file.origin(), "not a valid zip archive: the directory is damaged");
    }
    uint64_t packed = field<uint32_t>(entry + 20), unpacked = field<uint32_t>(entry + 24),
             offset = field<uint32_t>(entry + 42);
    read_zip64(file, rest.substr(kEntryBytes + name, extra), unpacked, packed, offset);
    ZipMember member{.name = std::string(rest.substr(kEntryBytes, name)),
                     .flags = field<uint16_t>(entry + 8),
                     .method = field<uint16_t>(entry + 10),
                     .crc = field<uint32_t>(entry + 16)};
    member.packed_bytes = checked(file, packed, "a member");
    member.header_offset = checked(file, offset, "a member");
    const auto most = static_cast<uint64_t>((member.packed_bytes + 1) * kLargestDeflateRatio);
    if (unpacked > most) {
      fail(file.origin(), member.name, ": ", unpacked, " bytes cannot come from ", packed, " compressed ones");
    }
    member.bytes = static_cast<int64_t>(unpacked);
    rest.remove_prefix(kEntryBytes + name + extra + comment);
    members[member.name] = std::move(member);
  }
  return members;
}

ZipMemberReader::ZipMemberReader(InputFile& file, const ZipMember& member)
    : file_(file), member_(member), chunk_(kReadBuffer) {
  const auto refuse = [&](const auto&... text) { fail(file.origin(), member.name, ": ", text...); };
  if (member.flags & 1) refuse("the member is encrypted");
  if (member.method != 0 && member.method != 8) {
    refuse("compression method ", member.method, "; only stored (0) and deflated (8) are read");
  }
  char local[kLocalBytes];
  file.read_at(member.header_offset, local, sizeof(local));
  if (field<uint32_t>(local) != kLocalMark) refuse("no member header at the offset that the directory gives");
  packed_at_ = member.header_offset + kLocalBytes + field<uint16_t>(local + 26) + field<uint16_t>(local + 28);
  packed_left_ = member.packed_bytes;
  if (packed_at_ + packed_left_ > *file.size()) refuse("the member runs past the end of the file");
  deflated_ = member.method == 8;
  if (!deflated_ && member.packed_bytes != member.bytes) refuse("a stored member has two different sizes");
  crc_ = static_cast<uint32_t>(crc32(0, nullptr, 0));
  constexpr int kRawWindow = -15;
  if (deflated_ && inflateInit2(&stream_, kRawWindow) != Z_OK) {
    deflated_ = false;
    refuse("cannot start zlib");
  }
}

ZipMemberReader::~ZipMemberReader() {
  if (deflated_) inflateEnd(&stream_);
}

void ZipMemberReader::read(char* out, size_t bytes) {
  if (static_cast<int64_t>(bytes) > remaining()) fail(file_.origin(), member_.name, ": the array is cut short");
  if (bytes == 0) return;
  if (deflated_) {
    inflate_into(out, bytes);
  } else {
    file_.read_at(packed_at_ + done_, out, bytes);
  }
  crc_ = static_cast<uint32_t>(crc32_z(crc_, reinterpret_cast<const unsigned char*>(out), bytes));
  done_ += static_cast<int64_t>(bytes);
  if (remaining() == 0 && crc_ != member_.crc)
    fail(file_.origin(), member_.name, ": checksum error, the data is damaged");
}

void ZipMemberReader::inflate_into(char* out, size_t bytes) {
  while (bytes > 0) {
    if (stream_.avail_in == 0 && packed_left_ > 0) {
      const auto part = std::min<int64_t>(packed_left_, static_cast<int64_t>(kReadBuffer));
      file_.read_at(packed_at_, chunk_.data(), static_cast<size_t>(part));
      packed_at_ += part;
      packed_left_ -= part;
      stream_.next_in = reinterpret_cast<unsigned char*>(chunk_.data());
      stream_.avail_in = static_cast<uInt>(part);
    }
    const auto room = static_cast<uInt>(std::min(bytes, size_t{1} << 30));
    stream_.next_out = reinterpret_cast<unsigned char*>(out);
    stream_.avail_out = room;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    const size_t got = room - stream_.avail_out;
    out += got;
    bytes -= got;
    if (status != Z_OK && (status != Z_STREAM_END || bytes > 0)) {
      fail(file_.origin(), member_.name, ": the compressed data is damaged or cut short");
    }
  }
}

}  // namespace topomask::io
