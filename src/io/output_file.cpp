#include "io/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace topomask::io {
namespace {

constexpr size_t kBuffer = size_t{1} << 18;
constexpr int kGzipWindow = 15 + 16;
constexpr int kGzipMemory = 8;

constexpr std::string_view kTemporary = ".tmp.";

std::string temporary_name(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  return c10::str(path, kTemporary, ::getpid(), ".", counter++);
}

/// The folder of a file, open, so that a change of its names can be flushed. None where the folder may be written but
/// not read.
class Folder {
 public:
  explicit Folder(const Origin& origin) : origin_(origin) {
    const size_t slash = origin.path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : origin.path.substr(0, slash + 1);
    descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor_ < 0 && errno != EACCES) fail(origin, "cannot write: its folder: ", std::strerror(errno));
  }
  ~Folder() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void sync() const {
    // Some file systems do not flush folders and say so by EINVAL.
    if (descriptor_ >= 0 && ::fsync(descriptor_) != 0 && errno != EINVAL) {
      fail(origin_, "written, but its folder cannot be flushed to the disk: ", std::strerror(errno));
    }
  }

 private:
  const Origin& origin_;
  int descriptor_;
};

}  // namespace

std::string_view unfinished_name(std::string_view file) {
  const size_t mark = file.rfind(kTemporary);
  if (mark == std::string_view::npos) return {};
  const std::string_view numbers = file.substr(mark + kTemporary.size());
  const size_t dot = numbers.find('.');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const bool ours =
      dot != std::string_view::npos && is_number(numbers.substr(0, dot)) && is_number(numbers.substr(dot + 1));
  return ours ? file.substr(0, mark) : std::string_view{};
}

void write_all(const Origin& origin, int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(descriptor, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail(origin, "cannot write: ", std::strerror(wrote == 0 ? ENOSPC : errno));
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
}

OutputFile::OutputFile(Origin origin) : origin_(std::move(origin)) {
  struct stat status {};
  // Renaming over a device or a pipe would replace it.
  if (::stat(origin_.path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    fail(origin_,
         S_ISDIR(status.st_mode) ? "cannot write: it is a directory" : "cannot write: it is not a regular file");
  }
  gzip_ = origin_.path.ends_with(".gz");
  if (gzip_ &&
      deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kGzipMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    fail(origin_, "cannot start zlib");
  }
  temporary_ = temporary_name(origin_.path);
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    const int reason = errno;
    if (gzip_) deflateEnd(&stream_);
    fail(origin_, "cannot write: ", std::strerror(reason));
  }
  buffer_.reserve(kBuffer + 64);
}

OutputFile::~OutputFile() {
  if (gzip_) deflateEnd(&stream_);
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::put(std::string_view bytes) {
  bytes_put_ += static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), kBuffer);
    buffer_.append(bytes.substr(0, part));
    bytes.remove_prefix(part);
    if (buffer_.size() >= kBuffer) flush(false);
  }
}

template <typename Number>
void OutputFile::put_number(Number number) {
  char digits[32];
  const auto written = std::to_chars(digits, digits + sizeof(digits), number);
  put(std::string_view(digits, static_cast<size_t>(written.ptr - digits)));
}

void OutputFile::put(int64_t number) {
  put_number(number);
}
void OutputFile::put(double weight) {
  put_number(weight);
}
void OutputFile::put(float weight) {
  put_number(weight);
}

void OutputFile::flush(bool last) {
  if (!gzip_) {
    write_all(origin_, descriptor_, buffer_);
  } else {
    std::vector<char> packed(kBuffer);
    stream_.next_in = reinterpret_cast<unsigned char*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(buffer_.size());
    do {
      stream_.next_out = reinterpret_cast<unsigned char*>(packed.data());
      stream_.avail_out = static_cast<uInt>(packed.size());
      deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      write_all(origin_, descriptor_, {packed.data(), packed.size() - stream_.avail_out});
    } while (stream_.avail_out == 0);
  }
  buffer_.clear();
}

void OutputFile::commit() {
  flush(true);
  const Folder folder(origin_);
  // A full disk may show only here; and a rename must not overtake the data.
  if (::fsync(descriptor_) != 0) fail(origin_, "cannot write: ", std::strerror(errno));
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(origin_, "cannot write: ", std::strerror(errno));
  if (std::rename(temporary_.c_str(), origin_.path.c_str()) != 0) {
    fail(origin_, "cannot write: ", std::strerror(errno));
  }
  temporary_.clear();
  folder.sync();
}

}  // namespace topomask::io
