#include <charconv>

#include "data/video/container_parsers.h"
#include "io/quoted.h"

namespace topomask {

/// Without its end.
std::string VideoFile::Y4mParser::line_at(int64_t at) {
  constexpr int64_t kLongestLine = 256;
  std::string text(static_cast<size_t>(std::min(kLongestLine, size_ - at)), '\0');
  file_.read_at(at, text.data(), text.size());
  const size_t end = text.find('\n');
  if (end == std::string::npos) {
    io::fail(file_.origin(), "the line at byte ", at, " must end within ", kLongestLine, " bytes");
  }
  return text.substr(0, end);
}

int64_t VideoFile::Y4mParser::side(std::string_view parameter) {
  const std::string_view digits = parameter.substr(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 1 || value > kLongestSide) {
    io::fail(file_.origin(), "W and H must be from 1 to ", kLongestSide, ", got ", io::quoted(parameter));
  }
  return value;
}

void VideoFile::Y4mParser::read_chroma(std::string_view name) {
  if (name == "420" || name == "420jpeg" || name == "420mpeg2" || name == "420paldv") {
    video_.chroma_down_ = video_.chroma_across_ = 2;
  } else if (name == "422") {
    video_.chroma_down_ = 1;
    video_.chroma_across_ = 2;
  } else if (name == "444") {
    video_.chroma_down_ = video_.chroma_across_ = 1;
  } else if (name == "mono") {
    video_.chroma_down_ = video_.chroma_across_ = 0;
  } else {
    io::fail(file_.origin(), "C must be 420, 420jpeg, 420mpeg2, 420paldv, 422, 444 or mono, got ", io::quoted(name));
  }
}

void VideoFile::Y4mParser::read_parameters(std::string_view line) {
  read_chroma("420");  // where nothing is said
  while (!line.empty()) {
    const std::string_view parameter = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(line.size(), parameter.size() + 1));
    if (parameter.empty()) continue;
    if (parameter[0] == 'W') video_.width_ = side(parameter);
    if (parameter[0] == 'H') video_.height_ = side(parameter);
    if (parameter[0] == 'C') read_chroma(parameter.substr(1));
    if (parameter == "XCOLORRANGE=FULL") video_.full_range_ = true;
  }
  if (video_.width_ == 0 || video_.height_ == 0) io::fail(file_.origin(), "the first line has no W and H");
}

void VideoFile::Y4mParser::parse() {
  constexpr std::string_view kMagic = "YUV4MPEG2", kFrame = "FRAME";
  const std::string line = line_at(0);
  read_parameters(std::string_view(line).substr(kMagic.size()));
  video_.coding_ = Coding::yuv;
  const int64_t bytes = video_.frame_bytes();
  for (int64_t at = std::ssize(line) + 1; at < size_;) {
    const std::string head = line_at(at);
    if (!head.starts_with(kFrame)) {
      io::fail(file_.origin(), "expected FRAME at byte ", at, ", got ", io::quoted(head.substr(0, 16)));
    }
    at += std::ssize(head) + 1;
    if (bytes > size_ - at) {
      io::fail(file_.origin(), "the frame at byte ", at, " must have ", bytes, " bytes, ", size_ - at, " follow");
    }
    video_.frames_.push_back({at, bytes});
    at += bytes;
  }
}

}  // namespace topomask
