#include <cstring>

#include "data/video/container_parsers.h"
#include "io/quoted.h"

namespace topomask {

std::string VideoFile::AviParser::name_at(int64_t at) {
  std::string name(4, '\0');
  file_.read_at(at, name.data(), name.size());
  return name;
}

int64_t VideoFile::AviParser::number_at(int64_t at) {
  unsigned char bytes[4];
  file_.read_at(at, reinterpret_cast<char*>(bytes), sizeof(bytes));
  return int64_t{bytes[0]} | int64_t{bytes[1]} << 8 | int64_t{bytes[2]} << 16 | int64_t{bytes[3]} << 24;
}

/// Large files consist of several RIFF chunks, the later ones of type AVIX.
void VideoFile::AviParser::parse() {
  read_list(0, size_, 0);
  if (video_.height_ == 0) io::fail(file_.origin(), "no stream of pictures (strh of type vids, then strf) in it");
}

void VideoFile::AviParser::read_list(int64_t first, int64_t last, int depth) {
  constexpr int64_t kHead = 8, kType = 4;
  constexpr int kDeepest = 8;  // RIFF, movi and rec are three
  if (depth > kDeepest) io::fail(file_.origin(), "lists are nested more than ", kDeepest, " deep");
  for (int64_t at = first; at + kHead <= last;) {
    const std::string name = name_at(at);
    const int64_t bytes = number_at(at + 4), body = at + kHead;
    if (bytes > last - body) {
      io::fail(file_.origin(), "chunk ", io::quoted(name), " at byte ", at, " promises ", bytes, " bytes, ",
               last - body, " follow");
    }
    if (name == "RIFF" || name == "LIST") {
      if (bytes < kType) io::fail(file_.origin(), "the list at byte ", at, " has no type");
      const std::string type = name_at(body);
      // INFO and others hold strings.
      const bool wanted = depth == 0 || type == "hdrl" || type == "strl" || type == "movi" || type == "rec ";
      if (wanted) read_list(body + kType, body + bytes, depth + 1);
    } else if (name == "strh") {
      read_stream_header(body, bytes);
    } else if (name == "strf" && format_follows_) {
      read_format(body, bytes);
    } else if (name.size() == 4 && name[2] == 'd' && (name[3] == 'c' || name[3] == 'b')) {
      add_frame(name, body, bytes);
    }
    at = body + bytes + bytes % 2;
  }
}

void VideoFile::AviParser::read_stream_header(int64_t at, int64_t bytes) {
  if (bytes < 8) io::fail(file_.origin(), "the stream header at byte ", at, " must have 8 bytes, got ", bytes);
  format_follows_ = pictures_ < 0 && name_at(at) == "vids";
  if (format_follows_) pictures_ = streams_;
  ++streams_;
}

void VideoFile::AviParser::read_format(int64_t at, int64_t bytes) {
  format_follows_ = false;
  constexpr int64_t kBitmapHeader = 40;
  if (bytes < kBitmapHeader) {
    io::fail(file_.origin(), "the format at byte ", at, " must have ", kBitmapHeader, " bytes, got ", bytes);
  }
  const int64_t width = number_at(at + 4), bits = number_at(at + 12) >> 16;
  const auto height = static_cast<int32_t>(number_at(at + 8));  // negative: the first row is the upper one
  const std::string compression = name_at(at + 16);
  video_.top_down_ = height < 0;
  video_.width_ = width;
  video_.height_ = std::abs(int64_t{height});
  if (width < 1 || width > kLongestSide || video_.height_ < 1 || video_.height_ > kLongestSide) {
    io::fail(file_.origin(), "frames must be from 1 to ", kLongestSide, " pixels wide and high, got ", width, " x ",
             video_.height_);
  }
  if (compression == "MJPG" || compression == "mjpg") {
    video_.coding_ = Coding::jpeg;
  } else if (compression == std::string(4, '\0') && bits == 24) {
    video_.coding_ = Coding::bgr;
  } else {
    io::fail(file_.origin(), "frames must be JPEG (MJPG) or uncompressed with 24 bits a pixel, got ",
             io::quoted(compression), " with ", bits);
  }
}

void VideoFile::AviParser::add_frame(const std::string& name, int64_t at, int64_t bytes) {
  if (pictures_ < 0) io::fail(file_.origin(), "a frame at byte ", at, " comes before the header of its stream");
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : -1; };
  if (digit(name[0]) * 10 + digit(name[1]) != pictures_) return;  // of another stream
  if (bytes == 0) {
    // An empty chunk shows the frame before it again.
    if (video_.frames_.empty()) io::fail(file_.origin(), "the first frame, at byte ", at, ", is empty");
    video_.frames_.push_back(video_.frames_.back());
    return;
  }
  if (video_.coding_ == Coding::bgr && bytes != video_.frame_bytes()) {
    io::fail(file_.origin(), "the frame at byte ", at, " must have ", video_.frame_bytes(), " bytes, ", video_.width_,
             " x ", video_.height_, " pixels of 24 bits, got ", bytes);
  }
  video_.frames_.push_back({at, bytes});
}

}  // namespace topomask
