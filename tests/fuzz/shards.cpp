#include <zlib.h>

#include <cstring>
#include <filesystem>

#include "dist/shard_file.h"
#include "fuzz/harness.h"
#include "topomask/dist.h"

// An index of shards, and one shard where "TMSHARD\n" follows in the input: a folder of links to two files in memory.

namespace {

using namespace topomask;

constexpr size_t kHeader = sizeof(ShardHeader);
constexpr int64_t kMostParts = 8;

class ShardFolder {
 public:
  ShardFolder() {
    std::filesystem::create_directory(path_);
    std::filesystem::create_symlink(index_.put(""), index_path(path_));
    for (int64_t parts = 1; parts <= kMostParts; ++parts) {
      for (int64_t part = 0; part < parts; ++part) {
        std::filesystem::create_symlink(shard_.put(""), shard_path(path_, part, parts));
      }
    }
  }
  ~ShardFolder() { std::filesystem::remove_all(path_); }

  const std::string& put(std::string_view index, std::string_view shard) {
    index_.put(index);
    shard_.put(shard);
    return path_;
  }

 private:
  fuzz::MemoryFile index_{"index"}, shard_{"shard"};
  std::string path_ =
      (std::filesystem::temp_directory_path() / ("topomask_fuzz_shards_" + std::to_string(::getpid()))).string();
};

ShardHeader header_of(const std::string& bytes) {
  ShardHeader header{};
  std::memcpy(&header, bytes.data(), kHeader);
  return header;
}

/// The fingerprint of the owners in an index, where its header tells how many they are.
int64_t partition_fingerprint(const std::string& index) {
  const ShardHeader header = header_of(index);
  const auto room = static_cast<int64_t>((index.size() - kHeader) / sizeof(int32_t));
  if (header.nodes < 0 || header.nodes > room) return 0;
  Partition partition{at::empty({header.nodes}, at::kInt), header.parts};
  if (header.nodes > 0) {
    std::memcpy(partition.owners.mutable_data_ptr(), index.data() + kHeader, partition.owners.nbytes());
  }
  return partition.fingerprint();
}

/// Corrects what no mutation would get past: the fingerprint of the partition and the two checksums.
void repair_file(std::string& bytes, int64_t fingerprint) {
  if (bytes.size() < kHeader + sizeof(uint32_t)) return;
  std::memcpy(bytes.data() + offsetof(ShardHeader, partition_fingerprint), &fingerprint, sizeof(fingerprint));
  const auto put_sum = [&](size_t place, size_t first, size_t last) {
    const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
    const auto sum = static_cast<uint32_t>(crc32(0, data + first, static_cast<uInt>(last - first)));
    std::memcpy(bytes.data() + place, &sum, sizeof(sum));
  };
  put_sum(offsetof(ShardHeader, checksum), offsetof(ShardHeader, nodes), kHeader);
  put_sum(bytes.size() - sizeof(uint32_t), kHeader, bytes.size() - sizeof(uint32_t));
}

}  // namespace

FUZZ_TARGET(shards) {
  static ShardFolder folder;
  const std::string_view all = fuzz::text_of(data, size);
  const size_t cut = std::min(all.find(kShardMagic, 1), all.size());
  std::string index(all.substr(0, cut)), shard(all.substr(cut));
  if (size % 16 != 1 && index.size() >= kHeader) {
    const int64_t fingerprint = partition_fingerprint(index);
    repair_file(index, fingerprint);
    repair_file(shard, fingerprint);
  }
  const std::string& path = folder.put(index, shard);
  fuzz::run(path, [&] {
    const ShardIndex found = read_shard_index(path);
    const int64_t parts = found.partition.parts;
    fuzz::require(found.fingerprints.size(0) == parts, "an index without a fingerprint for each part");
    const int64_t part = shard.size() >= kHeader ? header_of(shard).part : 0;
    if (parts > kMostParts || part < 0 || part >= parts) return;
    const Shard read = read_shard(path, found, part);
    fuzz::require(read.offsets.size(0) == read.rows.size(0) + 1 && read.columns.size(0) == read.weights.size(0),
                  "arrays of two lengths");
  });
}
