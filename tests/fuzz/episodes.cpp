#include "topomask/data/episodes.h"

#include <zlib.h>

#include <cstring>

#include "fuzz/harness.h"

namespace {

using namespace topomask;

uint32_t sum_of(std::string_view bytes) {
  return static_cast<uint32_t>(crc32(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

/// Replaces the digits after `key`, from `from` on, by a number. Returns where to go on, or npos.
size_t put_number(std::string& text, std::string_view key, size_t from, uint64_t number) {
  const size_t at = text.find(key, from);
  if (at == std::string::npos) return at;
  size_t end = at + key.size();
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  const std::string digits = std::to_string(number);
  text.replace(at + key.size(), end - at - key.size(), digits);
  return at + key.size() + digits.size();
}

/// Puts right what no mutation would get past: the checksums of the arrays where the directory says how long they are,
/// that of the directory, and both lengths. The directory ends where its braces do.
void repair_shard(std::string& bytes) {
  constexpr size_t kHeader = 32;
  if (bytes.size() < kHeader) return;
  const size_t end = bytes.find("]}]}", kHeader);
  std::string directory = end == std::string::npos ? bytes.substr(kHeader) : bytes.substr(kHeader, end + 4 - kHeader);
  const std::string arrays = end == std::string::npos ? "" : bytes.substr(end + 4);
  size_t array = 0;
  for (size_t at = 0;;) {
    constexpr std::string_view kLength = "\"bytes\":";
    at = directory.find(kLength, at);
    if (at == std::string::npos) break;
    const size_t length = std::strtoull(directory.c_str() + at + kLength.size(), nullptr, 10);
    if (array > arrays.size() || length > arrays.size() - array) break;
    at = put_number(directory, "\"crc\":", at, sum_of(std::string_view(arrays).substr(array, length)));
    if (at == std::string::npos) break;
    array += length;
  }
  bytes = bytes.substr(0, kHeader) + directory + arrays;
  const uint32_t crc = sum_of(directory);
  const uint64_t directory_bytes = directory.size(), file_bytes = bytes.size();
  std::memcpy(bytes.data() + 12, &crc, sizeof(crc));
  std::memcpy(bytes.data() + 16, &directory_bytes, sizeof(directory_bytes));
  std::memcpy(bytes.data() + 24, &file_bytes, sizeof(file_bytes));
}

}  // namespace

FUZZ_TARGET(episodes) {
  static fuzz::MemoryFile file("episodes");
  std::string bytes(fuzz::text_of(data, size));
  if (size % 8 != 7) repair_shard(bytes);
  const std::string& path = file.put(bytes);
  fuzz::run(path, [&] {
    const EpisodeSet set(path);
    for (int64_t i = 0; i < set.size() && i < 4; ++i) check_episode(set.load(i));
  });
}
