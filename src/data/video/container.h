#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// A video whose frames are stored one by one, of one size: AVI (RIFF, OpenDML too) with JPEG frames (MJPG) or
/// uncompressed ones (24 bits a pixel), or YUV4MPEG2 (.y4m) with 8 bits a sample and chroma of 4:2:0, 4:2:2, 4:4:4 or
/// none. The first stream of pictures is read, sound is skipped. The content of the file decides which it is.
///
/// Opening reads headers alone; it walks over the chunks themselves, and needs no index. Every size and offset is held
/// against the size of the file before it is used. read() decodes one frame, and may be called from several threads.
class VideoFile {
 public:
  explicit VideoFile(const std::string& path);

  int64_t frames() const { return std::ssize(frames_); }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }

  /// uint8 [3, H, W]. `smallest_side` > 0: a JPEG may be decoded smaller, as read_image does. Luma and chroma are those
  /// of BT.601, in the limited range (16 … 235) unless the file says XCOLORRANGE=FULL.
  at::Tensor read(int64_t frame, int64_t smallest_side = 0) const;

 private:
  enum class Coding { jpeg, bgr, yuv };
  struct Place {
    int64_t offset, bytes;
  };
  class AviParser;
  class Y4mParser;
  friend class AviParser;
  friend class Y4mParser;

  int64_t frame_bytes() const;  ///< of uncompressed frames
  at::Tensor from_bgr(const std::vector<uint8_t>& bytes) const;
  at::Tensor from_yuv(const std::vector<uint8_t>& bytes) const;

  std::string path_;
  Coding coding_ = Coding::jpeg;
  int64_t height_ = 0, width_ = 0;
  bool top_down_ = false;                        ///< bgr: the first row is the upper one
  bool full_range_ = false;                      ///< yuv
  int64_t chroma_down_ = 0, chroma_across_ = 0;  ///< yuv: pixels that share a chroma sample; 0: grey
  std::vector<Place> frames_;
};

}  // namespace topomask
