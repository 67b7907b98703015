#include "fuzz/harness.h"
#include "topomask/data/image.h"

FUZZ_TARGET(jpeg) {
  using namespace topomask;
  static fuzz::MemoryFile file("jpeg");
  const std::string& path = file.put(fuzz::text_of(data, size));
  const int64_t smallest_side = size == 0 ? 0 : data[size / 2] % 64;  // decoded at a smaller scale where it may
  fuzz::run(path,
            [&] { fuzz::require(read_image(path, smallest_side).size(0) == 3, "an image without three channels"); });
}
