#include "train/event_file.h"

#include <c10/util/StringUtil.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>

namespace topomask {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  constexpr uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ (remainder & 1 ? kReversedPolynomial : 0);
    table[byte] = remainder;
  }
  return table;
}

/// TFRecord files rotate and shift a checksum, so that one over data with checksums inside stays strong.
uint32_t masked(uint32_t crc) {
  return std::rotr(crc, 15) + 0xa282ead8;
}

template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) bytes.assign(bytes.rbegin(), bytes.rend());
  return bytes;
}

// The few parts of protobuf's wire format that an Event needs.
enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes += static_cast<char>(value);
}

std::string key(int field, Wire wire) {
  return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}

std::string bytes_field(int field, const std::string& bytes) {
  return key(field, Wire::bytes) + varint(bytes.size()) + bytes;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Event: wall_time = 1, step = 2, file_version = 3, summary = 5.
std::string event_at(double time) {
  return key(1, Wire::fixed64) + little_endian(time);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  uint32_t crc = ~0U;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 255] ^ crc >> 8;
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder) {
  static std::atomic<int> files{0};
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) std::strcpy(host.data(), "host");
  path_ = folder / c10::str("events.out.tfevents.", static_cast<int64_t>(now()), ".", host.data(), ".", ::getpid(), ".",
                            files++);
  file_.emplace(io::Origin{"EventFile", path_.string()}, io::AppendFile::Start::keep);
  record(event_at(now()) + bytes_field(3, "brain.Event:2"));
  flush();
}

void EventFile::scalar(const std::string& tag, int64_t step, double value) {
  // Summary.Value: tag = 1, simple_value = 2.
  const std::string entry = bytes_field(1, tag) + key(2, Wire::fixed32) + little_endian(static_cast<float>(value));
  record(event_at(now()) + key(2, Wire::varint) + varint(static_cast<uint64_t>(step)) +
         bytes_field(5, bytes_field(1, entry)));
}

void EventFile::record(const std::string& event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  waiting_ += length + little_endian(masked(crc32c(length))) + event + little_endian(masked(crc32c(event)));
}

void EventFile::flush() {
  file_->append(waiting_);
  waiting_.clear();
}

}  // namespace topomask
