#include <ATen/ATen.h>
#include <png.h>

#include "core/checks.h"
#include "data/image_codecs.h"
#include "io/input_file.h"
#include "io/output_file.h"
#include "topomask/data/image.h"

namespace topomask {

at::Tensor decode_png(const std::string& path, int64_t bytes) {
  const io::Origin origin{"read_image", path};
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_file(&image, path.c_str())) {
    io::fail(origin, "not a whole PNG file: ", image.message);
  }
  constexpr int64_t kPixelsPerByte = 8 * io::kLargestDeflateRatio;  // of one bit each
  if (const std::string reason = refused_size(image.width, image.height, bytes, kPixelsPerByte); !reason.empty()) {
    png_image_free(&image);
    io::fail(origin, reason);
  }
  image.format = PNG_FORMAT_RGB;
  at::Tensor pixels = at::empty({image.height, image.width, 3}, at::kByte);
  const png_color white{255, 255, 255};
  if (!png_image_finish_read(&image, &white, pixels.mutable_data_ptr<uint8_t>(), 0, nullptr)) {
    io::fail(origin, "the PNG data is damaged or cut short: ", image.message);
  }
  return pixels;
}

std::string encode_png(const at::Tensor& image) {
  TORCH_CHECK(image.defined() && image.scalar_type() == at::kByte && image.dim() == 3 && image.size(0) == 3 &&
                  image.numel() > 0,
              "encode_png: image must be uint8 [3, H, W] and not empty, got ", describe(image));
  const at::Tensor pixels = image.permute({1, 2, 0}).contiguous();
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.size(2));
  header.height = static_cast<png_uint_32>(image.size(1));
  header.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::string encoded(bytes, '\0');
  TORCH_CHECK(
      png_image_write_to_memory(&header, encoded.data(), &bytes, 0, pixels.const_data_ptr<uint8_t>(), 0, nullptr),
      "encode_png: ", header.message);
  encoded.resize(bytes);
  return encoded;
}

void write_png(const std::string& path, const at::Tensor& image) {
  io::OutputFile file({"write_png", path});
  file.put(encode_png(image));
  file.commit();
}

}  // namespace topomask
