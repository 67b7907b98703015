#include "data/readers.h"
#include "fuzz/harness.h"

FUZZ_TARGET(idx) {
  using namespace topomask;
  static fuzz::MemoryFile file("idx");
  const std::string& path = file.put(fuzz::text_of(data, size));
  for (const int64_t dimensions : {1, 3}) {
    fuzz::run(path,
              [&] { fuzz::require(read_idx(path, dimensions).dim() == dimensions, "an array of another shape"); });
  }
}
