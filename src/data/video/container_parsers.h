#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/video/container.h"
#include "io/input_file.h"

namespace topomask {

inline constexpr const char* kReadVideo = "read_video";
inline constexpr int64_t kLongestSide = 16384;  // of a frame

/// Chunks of a RIFF file of type AVI: a name of four characters, a size of four bytes, and that many bytes, padded to
/// an even number. Lists hold chunks.
class VideoFile::AviParser {
 public:
  AviParser(io::InputFile& file, VideoFile& video) : file_(file), size_(*file.size()), video_(video) {}
  void parse();

 private:
  void read_list(int64_t first, int64_t last, int depth);
  void read_stream_header(int64_t at, int64_t bytes);
  void read_format(int64_t at, int64_t bytes);
  void add_frame(const std::string& name, int64_t at, int64_t bytes);
  std::string name_at(int64_t at);
  int64_t number_at(int64_t at);  ///< four bytes, without sign

  io::InputFile& file_;
  int64_t size_;
  VideoFile& video_;
  int64_t streams_ = 0;          ///< headers seen
  int64_t pictures_ = -1;        ///< number of the stream of pictures
  bool format_follows_ = false;  ///< the next format is that of the pictures
};

/// A line of parameters, then for each frame a line that starts with FRAME and the samples.
class VideoFile::Y4mParser {
 public:
  Y4mParser(io::InputFile& file, VideoFile& video) : file_(file), size_(*file.size()), video_(video) {}
  void parse();

 private:
  std::string line_at(int64_t at);
  void read_parameters(std::string_view line);
  int64_t side(std::string_view parameter);
  void read_chroma(std::string_view name);

  io::InputFile& file_;
  int64_t size_;
  VideoFile& video_;
};

}  // namespace topomask
