#pragma once

#include <zlib.h>

#include <cstdint>
#include <string_view>

namespace topomask::io {

/// The CRC-32 of the bytes that `crc` is of, followed by `bytes`. zlib itself takes a null pointer, which an empty
/// tensor has, as a request for the initial value, and forgets what came before.
inline uint32_t extend_crc(uint32_t crc, std::string_view bytes) {
  if (bytes.empty()) return crc;
  return static_cast<uint32_t>(::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace topomask::io
