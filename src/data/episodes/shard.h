#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/origin.h"
#include "topomask/data/episodes.h"

// The format of a shard, which docs/robot-data.md describes: 32 bytes, a directory in JSON, the packed arrays.

namespace topomask::episodes {

inline constexpr std::string_view kMagic = "tmepisod";
inline constexpr uint32_t kVersion = 1;
inline constexpr int64_t kHeaderBytes = 32;
inline constexpr int64_t kLargestDirectory = int64_t{1} << 26;
inline constexpr const char* kEnding = ".episodes";
inline constexpr double kDepthUnit = 1e-4;  ///< metres; depth is stored in two bytes
inline constexpr int64_t kDeepest = 65535;  ///< in that unit

/// An array of every episode: how it is stored, and where in an Episode it is.
struct Field {
  const char* name;
  at::ScalarType type;  ///< in memory; depth is stored as uint16
  bool moves;           ///< stored as differences from frame to frame
  int64_t dimensions;   ///< of the tensor
  at::Tensor Episode::*tensor;
};
inline constexpr std::array<Field, 9> kFields{{
    {"rgb", at::kByte, true, 5, &Episode::rgb},
    {"depth", at::kFloat, true, 4, &Episode::depth},
    {"ids", at::kByte, true, 4, &Episode::ids},
    {"intrinsics", at::kDouble, false, 3, &Episode::intrinsics},
    {"poses", at::kDouble, false, 3, &Episode::poses},
    {"joints", at::kFloat, false, 2, &Episode::joints},
    {"actions", at::kFloat, false, 2, &Episode::actions},
    {"action_points", at::kFloat, false, 3, &Episode::action_points},
    {"bodies", at::kDouble, false, 3, &Episode::bodies},
}};

/// "u1", "u2", "f4" or "f8": what an element of the field is in the file.
const char* stored_type(const Field& field);
int64_t stored_bytes(const Field& field);

/// What the directory stores about one packed array.
struct Block {
  std::vector<int64_t> shape;
  int64_t packed = 0;  ///< bytes in the file
  uint32_t crc = 0;    ///< of those
};

struct Entry {
  std::string kind;
  uint64_t seed = 0;
  double interval = 0;
  std::vector<std::string> names;
  std::array<Block, kFields.size()> blocks;
  int64_t begin = 0;  ///< of its first block, from the end of the directory
};

struct Directory {
  std::vector<Entry> entries;
  std::map<std::string, int64_t> dropped;
};

std::string directory_text(const Directory& directory);
/// Refuses everything but what directory_text() makes, whose blocks fill `data_bytes` exactly and whose shapes agree.
Directory parse_directory(const io::Origin& origin, std::string_view text, int64_t data_bytes);

uint32_t crc_of(std::string_view bytes);

/// The bytes of a field of an episode, as stored: `pack` for a tensor that check_episode() accepts.
std::string pack(const Field& field, const at::Tensor& tensor);
at::Tensor unpack(const io::Origin& origin, const Field& field, const Block& block, std::string_view packed);

}  // namespace topomask::episodes
