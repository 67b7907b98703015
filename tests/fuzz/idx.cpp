#include "data/readers.h"
#include "fuzz/harness.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace topomask;
  static fuzz::MemoryFile file("idx");
  const std::string& path = file.put(fuzz::text_of(data, size));
  for (const int64_t dimensions : {1, 3}) {
    fuzz::run(path,
              [&] { fuzz::require(read_idx(path, dimensions).dim() == dimensions, "an array of another shape"); });
  }
  return 0;
}
