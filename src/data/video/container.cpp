#include "data/video/container.h"

#include <ATen/ATen.h>

#include "data/image_codecs.h"
#include "data/video/container_parsers.h"

namespace topomask {

VideoFile::VideoFile(const std::string& path) : path_(path) {
  io::InputFile file({kReadVideo, path});
  if (!file.size()) io::fail(file.origin(), "must be a file of known size, not a pipe");
  char start[12] = {};
  file.read_at(0, start, static_cast<size_t>(std::min<int64_t>(*file.size(), sizeof(start))));
  const std::string_view magic(start, sizeof(start));
  if (magic.starts_with("RIFF") && magic.substr(8, 4) == "AVI ") {
    AviParser(file, *this).parse();
  } else if (magic.starts_with("YUV4MPEG2")) {
    Y4mParser(file, *this).parse();
  } else {
    io::fail(file.origin(), "expected an AVI or YUV4MPEG2 file, but it starts as neither");
  }
  if (frames_.empty()) io::fail(file.origin(), "there is no frame in it");
}

int64_t VideoFile::frame_bytes() const {
  if (coding_ == Coding::bgr) return (3 * width_ + 3) / 4 * 4 * height_;  // rows end at multiples of four bytes
  const auto parts = [](int64_t size, int64_t part) { return (size + part - 1) / part; };
  const int64_t chroma = chroma_down_ == 0 ? 0 : 2 * parts(height_, chroma_down_) * parts(width_, chroma_across_);
  return height_ * width_ + chroma;
}

at::Tensor VideoFile::read(int64_t frame, int64_t smallest_side) const {
  TORCH_CHECK(frame >= 0 && frame < frames(), kReadVideo, ": ", path_, ": frame must be in [0, ", frames(), "), got ",
              frame);
  const Place& place = frames_[static_cast<size_t>(frame)];
  io::InputFile file({kReadVideo, path_});
  std::vector<uint8_t> bytes(static_cast<size_t>(place.bytes));
  file.read_at(place.offset, reinterpret_cast<char*>(bytes.data()), bytes.size());
  if (coding_ == Coding::bgr) return from_bgr(bytes);
  if (coding_ == Coding::yuv) return from_yuv(bytes);
  return decode_jpeg({kReadVideo, c10::str(path_, ": frame ", frame)}, bytes, smallest_side).permute({2, 0, 1});
}

at::Tensor VideoFile::from_bgr(const std::vector<uint8_t>& bytes) const {
  const at::Tensor rows = at::from_blob(const_cast<uint8_t*>(bytes.data()), {height_, width_, 3},
                                        {frame_bytes() / height_, 3, 1}, at::kByte);
  const at::Tensor upright = top_down_ ? rows : rows.flip(0);
  return upright.flip(2).permute({2, 0, 1}).contiguous();  // flip copies: nothing refers to `bytes` any more
}

at::Tensor VideoFile::from_yuv(const std::vector<uint8_t>& bytes) const {
  auto* data = const_cast<uint8_t*>(bytes.data());
  const auto samples = [&](int64_t rows, int64_t columns) {
    const at::Tensor plane = at::from_blob(data, {rows, columns}, at::kByte).to(at::kFloat);
    data += rows * columns;
    return plane;
  };
  // A sample of chroma is spread over the pixels that share it.
  const auto chroma = [&] {
    const at::Tensor small =
        samples((height_ + chroma_down_ - 1) / chroma_down_, (width_ + chroma_across_ - 1) / chroma_across_);
    const at::Tensor large = small.repeat_interleave(chroma_down_, 0).repeat_interleave(chroma_across_, 1);
    return large.slice(0, 0, height_).slice(1, 0, width_) - 128;
  };
  at::Tensor y = samples(height_, width_);
  if (!full_range_) y = (y - 16) * (255. / 219);
  const auto pixels = [](const at::Tensor& value) { return value.round().clamp(0, 255).to(at::kByte); };
  if (chroma_down_ == 0) return pixels(y).expand({3, height_, width_}).contiguous();
  const double scale = full_range_ ? 1 : 255. / 224;
  const at::Tensor u = chroma() * scale, v = chroma() * scale;
  // R = Y + 2(1 − Kr)·V, B = Y + 2(1 − Kb)·U, and G from Y = Kr·R + Kg·G + Kb·B, with Kr = .299, Kb = .114.
  const at::Tensor r = y + 1.402 * v, b = y + 1.772 * u,
                   g = y - (0.299 * 1.402 / 0.587) * v - (0.114 * 1.772 / 0.587) * u;
  return pixels(at::stack({r, g, b}));
}

}  // namespace topomask
