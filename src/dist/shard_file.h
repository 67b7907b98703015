#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "io/origin.h"

// The two kinds of files in a folder of shards. Little-endian: the header, then the arrays, then the CRC-32 of the
// arrays. Version 1:
//
//   offset  0  8 bytes   "TMSHARD\n" or "TMINDEX\n"
//           8  uint32    version
//          12  uint32    CRC-32 of bytes 16 … 79
//          16  8 × int64 nodes, parts, part (-1 in an index), rows, entries, flags (1: directed, 2: float64 weights),
//                        fingerprint of the partition, fingerprint of the rows (of the graph, in an index)
//          80  arrays    of a shard: rows int64 [rows], offsets int64 [rows + 1], columns int32 [entries], weights
//                        float32 or float64 [entries]; of an index: owners int32 [nodes], fingerprints int64 [parts]
//         end  uint32    CRC-32 of the arrays

namespace topomask {

struct ShardHeader {
  char magic[8];
  uint32_t version;
  uint32_t checksum;
  int64_t nodes, parts, part, rows, entries, flags, partition_fingerprint, fingerprint;
};
static_assert(sizeof(ShardHeader) == 80);

inline constexpr int64_t kShardDirected = 1, kShardDouble = 2;
inline constexpr char kShardMagic[9] = "TMSHARD\n", kIndexMagic[9] = "TMINDEX\n";

std::string shard_path(const std::string& folder, int64_t part, int64_t parts);
std::string index_path(const std::string& folder);

/// Fills magic, version and checksum in, and writes a file that appears when it is whole.
void write_shard_file(const io::Origin& origin, const char* magic, ShardHeader header,
                      const std::vector<at::Tensor>& arrays);

/// The header and the arrays of a file, in the order above. Takes no memory that the size of the file does not account
/// for, and refuses a file that is damaged in any byte.
std::pair<ShardHeader, std::vector<at::Tensor>> read_shard_file(const io::Origin& origin, const char* magic);

}  // namespace topomask
