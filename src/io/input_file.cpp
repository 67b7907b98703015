#include "io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace topomask::io {

InputFile::InputFile(Origin origin) : origin_(std::move(origin)) {
  descriptor_ = ::open(origin_.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail(origin_, "cannot open the file: ", std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || S_ISDIR(status.st_mode)) {
    ::close(descriptor_);
    fail(origin_, known ? "expected a file, got a directory" : "cannot read the size of the file");
  }
  if (S_ISREG(status.st_mode)) size_ = status.st_size;
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

size_t InputFile::read(char* out, size_t bytes) {
  for (;;) {
    const ssize_t got = ::read(descriptor_, out, bytes);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) fail(origin_, "cannot read: ", std::strerror(errno));
  }
}

void InputFile::read_at(int64_t offset, char* out, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, out, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(origin_, "cannot read: ", std::strerror(errno));
    if (got == 0) fail(origin_, "the file ends early, at byte ", offset);
    out += got;
    offset += got;
    bytes -= static_cast<size_t>(got);
  }
}

ByteSource::ByteSource(Origin origin) : file_(std::move(origin)), chunk_(kReadBuffer) {
  // A pipe may hand over one byte at a time, and the magic number has two.
  while (chunk_end_ < 2) {
    const size_t got = file_.read(reinterpret_cast<char*>(chunk_.data()) + chunk_end_, kReadBuffer - chunk_end_);
    if (got == 0) break;
    chunk_end_ += got;
  }
  gzip_ = chunk_end_ >= 2 && chunk_[0] == 0x1f && chunk_[1] == 0x8b;
  constexpr int kGzipWindow = 15 + 16;
  if (gzip_ && inflateInit2(&stream_, kGzipWindow) != Z_OK) fail(this->origin(), "cannot start zlib");
}

ByteSource::~ByteSource() {
  if (gzip_) inflateEnd(&stream_);
}

bool ByteSource::can_hold(int64_t bytes) const {
  const auto size = file_.size();
  if (!size) return true;
  return gzip_ ? bytes / kLargestDeflateRatio <= *size : bytes <= *size;
}

size_t ByteSource::read(char* out, size_t bytes) {
  size_t filled = 0;
  while (filled < bytes && !finished_) {
    filled += gzip_ ? read_gzip(out + filled, bytes - filled) : read_plain(out + filled, bytes - filled);
  }
  return filled;
}

size_t ByteSource::read_plain(char* out, size_t bytes) {
  if (chunk_at_ < chunk_end_) {
    const size_t ready = std::min(bytes, chunk_end_ - chunk_at_);
    std::memcpy(out, chunk_.data() + chunk_at_, ready);
    chunk_at_ += ready;
    return ready;
  }
  const size_t got = file_.read(out, bytes);
  finished_ = got == 0;
  return got;
}

bool ByteSource::more_input() {
  if (chunk_at_ < chunk_end_) return true;
  chunk_at_ = 0;
  chunk_end_ = file_.read(reinterpret_cast<char*>(chunk_.data()), kReadBuffer);
  return chunk_end_ > 0;
}

size_t ByteSource::read_gzip(char* out, size_t bytes) {
  if (!more_input()) fail(origin(), "the gzip stream is cut short");
  stream_.next_in = chunk_.data() + chunk_at_;
  stream_.avail_in = static_cast<uInt>(chunk_end_ - chunk_at_);
  stream_.next_out = reinterpret_cast<unsigned char*>(out);
  stream_.avail_out = static_cast<uInt>(std::min(bytes, kReadBuffer));
  const uInt room = stream_.avail_out;
  const int status = inflate(&stream_, Z_NO_FLUSH);
  chunk_at_ = chunk_end_ - stream_.avail_in;
  if (status == Z_STREAM_END) {
    finished_ = !next_member();
  } else if (status != Z_OK) {
    fail(origin(), "the gzip stream is corrupt", stream_.msg ? c10::str(": ", stream_.msg) : "");
  }
  return room - stream_.avail_out;
}

// gzip files may be several streams in a row (as bgzip and `cat a.gz b.gz` make them) and may be padded with zeros
// (tapes).
bool ByteSource::next_member() {
  while (more_input() && chunk_[chunk_at_] == 0) ++chunk_at_;
  if (!more_input()) return false;
  if (chunk_[chunk_at_] != 0x1f) fail(origin(), "the gzip stream is followed by bytes that are not gzip");
  return inflateReset(&stream_) == Z_OK;
}

}  // namespace topomask::io
