#include <zlib.h>

#include "fuzz/harness.h"
#include "topomask/data/image.h"

namespace {

/// Puts right the checksum of each chunk, length, type and data: most mutations would not get past it.
void repair_png(std::string& bytes) {
  auto* data = reinterpret_cast<unsigned char*>(bytes.data());
  for (size_t at = 8; at + 12 <= bytes.size();) {
    const size_t length = size_t{data[at]} << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3];
    if (length > bytes.size() - at - 12) return;
    const uLong crc = crc32(0, data + at + 4, static_cast<uInt>(length + 4));
    for (int i = 0; i < 4; ++i) data[at + 8 + length + i] = static_cast<unsigned char>(crc >> (24 - 8 * i));
    at += 12 + length;
  }
}

}  // namespace

FUZZ_TARGET(png) {
  using namespace topomask;
  static fuzz::MemoryFile file("png");
  std::string bytes(fuzz::text_of(data, size));
  if (size % 8 != 0) repair_png(bytes);
  const std::string& path = file.put(bytes);
  fuzz::run(path, [&] { fuzz::require(read_image(path).size(0) == 3, "an image without three channels"); });
}
