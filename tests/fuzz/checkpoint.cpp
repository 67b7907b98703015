#include "topomask/train/checkpoint.h"

#include <zlib.h>

#include <cstring>

#include "fuzz/harness.h"

namespace {

using namespace topomask;

/// Puts right the length of the header, the length of the file in it, and the checksum at the end: no mutation would
/// get past them. The tensors begin after the line break that a repaired header ends with.
void repair_checkpoint(std::string& bytes) {
  constexpr std::string_view kKey = "\"bytes\":\"";
  constexpr size_t kLength = 8, kDigits = 20, kChecksum = 4;
  if (bytes.size() < kLength + kChecksum) return;
  if (const size_t line = bytes.find('\n', kLength); line != std::string::npos && line + kChecksum < bytes.size()) {
    const uint64_t header = line + 1 - kLength;
    std::memcpy(bytes.data(), &header, sizeof(header));
  }
  if (const size_t at = bytes.find(kKey); at != std::string::npos && at + kKey.size() + kDigits < bytes.size()) {
    const std::string digits = std::to_string(bytes.size());
    bytes.replace(at + kKey.size(), kDigits, std::string(kDigits - digits.size(), '0') + digits);
  }
  const size_t summed = bytes.size() - kChecksum;
  const auto crc = static_cast<uint32_t>(crc32(0, reinterpret_cast<unsigned char*>(bytes.data()), summed));
  std::memcpy(bytes.data() + summed, &crc, sizeof(crc));
}

}  // namespace

FUZZ_TARGET(checkpoint) {
  static fuzz::MemoryFile file("checkpoint");
  std::string bytes(fuzz::text_of(data, size));
  if (size % 8 != 7) repair_checkpoint(bytes);
  const std::string& path = file.put(bytes);
  fuzz::run(path, [&] {
    const Checkpoint checkpoint = load_checkpoint(path);
    for (const auto* part : {&checkpoint.model, &checkpoint.average, &checkpoint.optimiser}) {
      for (const auto& [name, tensor] : *part) fuzz::require(tensor.is_contiguous(), "a tensor that is not laid out");
    }
  });
}
