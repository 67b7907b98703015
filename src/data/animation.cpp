#include "topomask/data/animation.h"

#include <zlib.h>

#include <string_view>

#include "core/checks.h"
#include "io/output_file.h"
#include "topomask/data/image.h"

namespace topomask {
namespace {

constexpr size_t kSignature = 8;  // bytes before the first chunk

void append_number(std::string& out, uint32_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

/// Length, type, data, and the checksum of type and data.
std::string png_chunk(std::string_view type, std::string_view data) {
  std::string chunk;
  append_number(chunk, static_cast<uint32_t>(data.size()), 4);
  chunk.append(type).append(data);
  const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(chunk.data()) + 4, type.size() + data.size());
  append_number(chunk, static_cast<uint32_t>(crc), 4);
  return chunk;
}

/// A PNG as encode_png() makes it, taken apart.
struct PngParts {
  std::string_view before;  ///< signature, header and what else precedes the pixels
  std::string pixels;       ///< of all IDAT chunks together
};

PngParts take_apart(std::string_view png) {
  PngParts parts;
  for (size_t at = kSignature; at < png.size();) {
    uint32_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(png[at + i]);
    if (png.substr(at + 4, 4) == "IDAT") {
      if (parts.pixels.empty()) parts.before = png.substr(0, at);
      parts.pixels += png.substr(at + 8, length);
    }
    at += 12 + length;
  }
  return parts;
}

/// The whole canvas, for this long, in place of what was there.
std::string frame_control(uint32_t sequence, const at::Tensor& image, int64_t milliseconds) {
  std::string data;
  append_number(data, sequence, 4);
  append_number(data, static_cast<uint32_t>(image.size(2)), 4);
  append_number(data, static_cast<uint32_t>(image.size(1)), 4);
  append_number(data, 0, 4);  // left
  append_number(data, 0, 4);  // top
  append_number(data, static_cast<uint32_t>(milliseconds), 2);
  append_number(data, 1000, 2);
  append_number(data, 0, 2);  // neither disposed of nor blended
  return png_chunk("fcTL", data);
}

}  // namespace

std::string encode_animation(const std::vector<at::Tensor>& images, int64_t milliseconds) {
  TORCH_CHECK(!images.empty(), "encode_animation: images must not be empty");
  TORCH_CHECK(milliseconds > 0 && milliseconds <= 65535, "encode_animation: milliseconds must be in [1, 65535], got ",
              milliseconds);
  std::string result;
  uint32_t sequence = 0;
  for (const at::Tensor& image : images) {
    TORCH_CHECK(image.defined() && image.sizes() == images[0].sizes(),
                "encode_animation: images must be of one shape, got ", describe(image));
    const std::string png = encode_png(image);
    const PngParts parts = take_apart(png);
    if (result.empty()) {
      std::string control;
      append_number(control, static_cast<uint32_t>(images.size()), 4);
      append_number(control, 0, 4);  // for ever
      result = std::string(parts.before) + png_chunk("acTL", control);
      result += frame_control(sequence++, image, milliseconds) + png_chunk("IDAT", parts.pixels);
      continue;
    }
    result += frame_control(sequence++, image, milliseconds);
    std::string data;
    append_number(data, sequence++, 4);
    result += png_chunk("fdAT", data + parts.pixels);
  }
  return result + png_chunk("IEND", "");
}

void write_animation(const std::string& path, const std::vector<at::Tensor>& images, int64_t milliseconds) {
  io::OutputFile file({"write_animation", path});
  file.put(encode_animation(images, milliseconds));
  file.commit();
}

}  // namespace topomask
