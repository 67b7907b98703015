#include "dist/shard_file.h"

#include <ATen/ATen.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <limits>

#include "io/checksum.h"
#include "io/input_file.h"
#include "io/output_file.h"

namespace topomask {
namespace {

constexpr uint32_t kShardVersion = 1;
static_assert(std::endian::native == std::endian::little);

uint32_t header_checksum(const ShardHeader& header) {
  constexpr size_t kSkipped = offsetof(ShardHeader, nodes);
  return io::extend_crc(0, {reinterpret_cast<const char*>(&header) + kSkipped, sizeof(header) - kSkipped});
}

uint32_t with_bytes_of(uint32_t checksum, const at::Tensor& array) {
  return io::extend_crc(checksum, {static_cast<const char*>(array.const_data_ptr()), array.nbytes()});
}

/// The arrays after a header; their sizes have been checked against that of the file.
std::vector<at::Tensor> arrays_behind(const ShardHeader& header, bool index) {
  if (index) return {at::empty({header.nodes}, at::kInt), at::empty({header.parts}, at::kLong)};
  return {at::empty({header.rows}, at::kLong), at::empty({header.rows + 1}, at::kLong),
          at::empty({header.entries}, at::kInt),
          at::empty({header.entries}, header.flags & kShardDouble ? at::kDouble : at::kFloat)};
}

int64_t bytes_behind(const ShardHeader& header, bool index) {
  if (index) return header.nodes * 4 + header.parts * 8;
  return header.rows * 8 + (header.rows + 1) * 8 + header.entries * (header.flags & kShardDouble ? 12 : 8);
}

ShardHeader read_shard_header(io::InputFile& file, const char* magic, bool index) {
  const io::Origin& origin = file.origin();
  if (!file.size()) io::fail(origin, "expected a regular file");
  ShardHeader header{};
  const int64_t size = *file.size();
  if (size < static_cast<int64_t>(sizeof(header))) io::fail(origin, "too short for a file of shards");
  file.read_at(0, reinterpret_cast<char*>(&header), sizeof(header));
  if (std::memcmp(header.magic, magic, sizeof(header.magic)) != 0) {
    io::fail(origin, "expected ", index ? "an index of shards" : "a shard", ", got another kind of file");
  }
  if (header.version != kShardVersion) {
    io::fail(origin, "version ", header.version, ", this library reads version ", kShardVersion);
  }
  if (header.checksum != header_checksum(header)) io::fail(origin, "the header is damaged");
  const int64_t counts[] = {index ? header.nodes : 0, index ? header.parts : 0, index ? 0 : header.rows,
                            index ? 0 : header.entries};
  for (const int64_t count : counts) {  // an element takes four bytes at least: the sum cannot overflow
    if (count < 0 || count > size) io::fail(origin, "the header promises ", count, " elements in ", size, " bytes");
  }
  const bool sane = header.nodes >= 0 && header.nodes <= std::numeric_limits<int32_t>::max() && header.parts >= 1 &&
                    header.part >= -1 && header.part < header.parts;
  if (!sane) io::fail(origin, "the header contradicts itself");
  const int64_t expected = static_cast<int64_t>(sizeof(header) + sizeof(uint32_t)) + bytes_behind(header, index);
  if (expected != size) io::fail(origin, "expected ", expected, " bytes, as the header says, got ", size);
  return header;
}

}  // namespace

std::string shard_path(const std::string& folder, int64_t part, int64_t parts) {
  char name[64];
  std::snprintf(name, sizeof(name), "/shard-%05lld-of-%05lld.tmshard", static_cast<long long>(part),
                static_cast<long long>(parts));
  return folder + name;
}

std::string index_path(const std::string& folder) {
  return folder + "/index.tmshards";
}

void write_shard_file(const io::Origin& origin, const char* magic, ShardHeader header,
                      const std::vector<at::Tensor>& arrays) {
  std::memcpy(header.magic, magic, sizeof(header.magic));
  header.version = kShardVersion;
  header.checksum = header_checksum(header);
  io::OutputFile file(origin);
  file.put({reinterpret_cast<const char*>(&header), sizeof(header)});
  uint32_t checksum = 0;
  for (const at::Tensor& array : arrays) {
    checksum = with_bytes_of(checksum, array);
    file.put({static_cast<const char*>(array.const_data_ptr()), array.nbytes()});
  }
  file.put({reinterpret_cast<const char*>(&checksum), sizeof(checksum)});
  file.commit();
}

std::pair<ShardHeader, std::vector<at::Tensor>> read_shard_file(const io::Origin& origin, const char* magic) {
  const bool index = std::memcmp(magic, kIndexMagic, sizeof(kIndexMagic)) == 0;
  io::InputFile file(origin);
  const ShardHeader header = read_shard_header(file, magic, index);
  std::vector<at::Tensor> arrays = arrays_behind(header, index);
  int64_t at = sizeof(header);
  uint32_t checksum = 0;
  for (at::Tensor& array : arrays) {
    file.read_at(at, static_cast<char*>(array.mutable_data_ptr()), array.nbytes());
    checksum = with_bytes_of(checksum, array);
    at += static_cast<int64_t>(array.nbytes());
  }
  uint32_t last = 0;
  file.read_at(at, reinterpret_cast<char*>(&last), sizeof(last));
  if (last != checksum) io::fail(origin, "the content is damaged: its checksum does not match");
  return {header, std::move(arrays)};
}

}  // namespace topomask
