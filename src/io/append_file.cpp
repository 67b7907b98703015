#include "io/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "io/output_file.h"

namespace topomask::io {

AppendFile::AppendFile(Origin origin, Start start) : origin_(std::move(origin)) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (start == Start::empty ? O_TRUNC : 0);
  descriptor_ = ::open(origin_.path.c_str(), flags, 0666);
  if (descriptor_ < 0) fail(origin_, "cannot write: ", std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

AppendFile::~AppendFile() {
  ::close(descriptor_);
}

void AppendFile::append(std::string_view record) {
  try {
    write_all(origin_, descriptor_, record);
  } catch (...) {
    // Where this fails too, the reader meets a cut last record, as after a kill.
    [[maybe_unused]] const int status = ::ftruncate(descriptor_, size_);
    throw;
  }
  size_ += static_cast<int64_t>(record.size());
  synced_ = synced_ && record.empty();
}

void AppendFile::sync() {
  if (!synced_ && ::fsync(descriptor_) != 0) fail(origin_, "cannot write: ", std::strerror(errno));
  synced_ = true;
}

}  // namespace topomask::io
