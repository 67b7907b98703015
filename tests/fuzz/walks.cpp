#include "topomask/walks.h"

#include <zlib.h>

#include <cstring>

#include "fuzz/harness.h"

namespace {

/// Puts right the checksums of the header and of the arrays: no mutation would get past them.
void repair_walks(std::string& bytes) {
  constexpr size_t kHeader = 152, kSum = 12, kSummed = 16;
  if (bytes.size() < kHeader + 4) return;
  auto* data = reinterpret_cast<unsigned char*>(bytes.data());
  const auto put = [&](size_t place, size_t first, size_t last) {
    const auto crc = static_cast<uint32_t>(crc32(0, data + first, static_cast<uInt>(last - first)));
    std::memcpy(data + place, &crc, sizeof(crc));
  };
  put(kSum, kSummed, kHeader);
  put(bytes.size() - 4, kHeader, bytes.size() - 4);
}

}  // namespace

FUZZ_TARGET(walks) {
  using namespace topomask;
  static fuzz::MemoryFile file("walks");
  std::string bytes(fuzz::text_of(data, size));
  if (size % 16 != 1) repair_walks(bytes);  // a table has as many bytes as its arrays, mostly an even number
  const std::string& path = file.put(bytes);
  fuzz::run(path, [&] {
    const WalkTable table = load_walks(path);
    fuzz::require(table.columns().size(0) == table.loads().size(0), "arrays of two lengths");
    table.independent_pairs();
  });
}
