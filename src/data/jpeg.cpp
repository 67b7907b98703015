#include <ATen/ATen.h>

#include <csetjmp>
#include <cstdio>
// jpeglib.h wants stdio.h before it.
#include <jpeglib.h>

#include <memory>

#include "data/image_codecs.h"
#include "io/origin.h"

namespace topomask {
namespace {

struct Failure {
  jpeg_error_mgr manager;  // first: libjpeg hands back a pointer to it
  jpeg_progress_mgr progress;
  std::jmp_buf place;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->message);
  std::longjmp(failure->place, 1);
}

/// libjpeg makes up pixels for a file that is damaged or cut short, and only warns.
void on_message(j_common_ptr info, int level) {
  if (level < 0) on_error(info);
}

/// Each scan goes over the whole image, and some take few bytes: a file of many would keep a reader busy for hours.
/// What encoders write has about ten.
void on_progress(j_common_ptr info) {
  constexpr int kMostScans = 100;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* failure = reinterpret_cast<Failure*>(info->err);
  std::snprintf(failure->message, sizeof(failure->message), "it has more than %d scans", kMostScans);
  std::longjmp(failure->place, 1);
}

/// Where the bytes come from: an open file, or memory where that is null.
struct JpegSource {
  std::FILE* file = nullptr;
  std::span<const uint8_t> memory;
};

/// Neither step may hold an object with a destructor while libjpeg runs: errors jump past it.
bool start(jpeg_decompress_struct& info, Failure& failure, const JpegSource& source, int64_t smallest_side) {
  if (setjmp(failure.place)) return false;
  jpeg_create_decompress(&info);
  info.progress = &failure.progress;
  if (source.file) {
    jpeg_stdio_src(&info, source.file);
  } else {
    jpeg_mem_src(&info, source.memory.data(), source.memory.size());
  }
  jpeg_read_header(&info, TRUE);
  const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  const int64_t shorter = std::min(info.image_width, info.image_height);
  info.scale_num = 1;
  info.scale_denom = 1;
  while (smallest_side > 0 && info.scale_denom < 8 && shorter / (2 * info.scale_denom) >= smallest_side) {
    info.scale_denom *= 2;
  }
  jpeg_calc_output_dimensions(&info);
  return true;
}

bool read_rows(jpeg_decompress_struct& info, Failure& failure, uint8_t* pixels) {
  if (setjmp(failure.place)) return false;
  jpeg_start_decompress(&info);
  const size_t stride = static_cast<size_t>(info.output_width) * static_cast<size_t>(info.output_components);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels + info.output_scanline * stride;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

struct Decoder {
  Decoder() {
    info.err = jpeg_std_error(&failure.manager);
    failure.manager.error_exit = on_error;
    failure.manager.emit_message = on_message;
    failure.progress.progress_monitor = on_progress;
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  jpeg_decompress_struct info{};
  Failure failure{};
};

at::Tensor decode(const io::Origin& origin, const JpegSource& source, int64_t bytes, int64_t smallest_side) {
  Decoder decoder;
  if (!start(decoder.info, decoder.failure, source, smallest_side)) {
    io::fail(origin, "not a whole JPEG file: ", decoder.failure.message);
  }
  // Huffman codes spend a bit at least on each block of 64 pixels of the finest component. Twice what that allows.
  constexpr int64_t kPixelsPerByte = 2 * 8 * 64;
  const std::string reason = refused_size(decoder.info.image_width, decoder.info.image_height, bytes, kPixelsPerByte);
  if (!reason.empty()) io::fail(origin, reason);
  const int64_t width = decoder.info.output_width, height = decoder.info.output_height;
  const int64_t channels = decoder.info.out_color_space == JCS_CMYK ? 4 : 3;
  at::Tensor pixels = at::empty({height, width, channels}, at::kByte);
  if (!read_rows(decoder.info, decoder.failure, pixels.mutable_data_ptr<uint8_t>())) {
    io::fail(origin, "the JPEG data is damaged or cut short: ", decoder.failure.message);
  }
  if (channels == 3) return pixels;
  // Inks are stored inverted, as Adobe does.
  const at::Tensor inks = pixels.to(at::kFloat);
  return (inks.slice(2, 0, 3) * inks.slice(2, 3, 4) / 255).round().to(at::kByte);
}

}  // namespace

at::Tensor decode_jpeg(const std::string& path, int64_t bytes, int64_t smallest_side) {
  const io::Origin origin{"read_image", path};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) io::fail(origin, "cannot open the file");
  return decode(origin, {.file = file.get(), .memory = {}}, bytes, smallest_side);
}

at::Tensor decode_jpeg(const io::Origin& origin, std::span<const uint8_t> file, int64_t smallest_side) {
  return decode(origin, {.memory = file}, std::ssize(file), smallest_side);
}

}  // namespace topomask
