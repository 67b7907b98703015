#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "dist/fingerprint.h"
#include "dist/shard_file.h"
#include "dist/write_shard.h"
#include "graph/weights.h"
#include "topomask/dist.h"

namespace topomask {

int64_t Shard::fingerprint() const {
  const int64_t *row = rows.const_data_ptr<int64_t>(), *offset = offsets.const_data_ptr<int64_t>();
  const int32_t* column = columns.const_data_ptr<int32_t>();
  const at::Tensor wide = weights.detach().to(at::kDouble);
  const double* weight = wide.const_data_ptr<double>();
  uint64_t sum = 0;
  for (int64_t r = 0; r < rows.size(0); ++r) {
    sum += mixed_bits(static_cast<uint64_t>(row[r]));
    for (int64_t e = offset[r]; e < offset[r + 1]; ++e) {
      uint64_t bits = 0;
      std::memcpy(&bits, weight + e, sizeof(bits));
      const uint64_t place = static_cast<uint64_t>(row[r]) << 32 | static_cast<uint32_t>(column[e]);
      sum += mixed_bits(mixed_bits(place) ^ bits);
    }
  }
  return static_cast<int64_t>(sum);
}

Shard shard_of(const Graph& graph, const Partition& partition, int64_t part) {
  TORCH_CHECK(partition.num_nodes() == graph.num_nodes(), "shard: the partition must have the nodes of the graph, ",
              graph.num_nodes(), ", got ", partition.num_nodes());
  TORCH_CHECK(graph.device().is_cpu(), "shard: the graph must be on cpu, got ", graph.device());
  check_constant_weights("shard", "graph", graph, "the shards of a graph have no gradient in them");
  Shard shard{.nodes = graph.num_nodes(),
              .parts = partition.parts,
              .part = part,
              .directed = graph.directed(),
              .partition_fingerprint = partition.fingerprint(),
              .rows = partition.nodes(part)};
  const int64_t count = shard.rows.size(0);
  const int64_t* row = shard.rows.const_data_ptr<int64_t>();
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  shard.offsets = at::empty({count + 1}, at::kLong);
  int64_t* made = shard.offsets.mutable_data_ptr<int64_t>();
  made[0] = 0;
  for (int64_t r = 0; r < count; ++r) made[r + 1] = made[r] + offset[row[r] + 1] - offset[row[r]];
  shard.columns = at::empty({made[count]}, at::kInt);
  shard.weights = at::empty({made[count]}, graph.weights().scalar_type());
  const auto copy_rows = [&](const at::Tensor& from, at::Tensor& to) {
    const auto size = static_cast<int64_t>(from.element_size());
    const auto* source = static_cast<const char*>(from.const_data_ptr());
    auto* target = static_cast<char*>(to.mutable_data_ptr());
    for (int64_t r = 0; r < count; ++r) {
      const int64_t bytes = (made[r + 1] - made[r]) * size;
      if (bytes > 0) std::memcpy(target + made[r] * size, source + offset[row[r]] * size, static_cast<size_t>(bytes));
    }
  };
  copy_rows(graph.columns(), shard.columns);
  copy_rows(graph.weights().contiguous(), shard.weights);
  return shard;
}

int64_t write_shard(const char* op, const Shard& shard, const std::string& folder) {
  const int64_t fingerprint = shard.fingerprint();
  const bool wide = shard.weights.scalar_type() == at::kDouble;
  write_shard_file({op, shard_path(folder, shard.part, shard.parts)}, kShardMagic,
                   {.nodes = shard.nodes,
                    .parts = shard.parts,
                    .part = shard.part,
                    .rows = shard.rows.size(0),
                    .entries = shard.columns.size(0),
                    .flags = (shard.directed ? kShardDirected : 0) | (wide ? kShardDouble : 0),
                    .partition_fingerprint = shard.partition_fingerprint,
                    .fingerprint = fingerprint},
                   {shard.rows, shard.offsets, shard.columns, shard.weights});
  return fingerprint;
}

void write_index(const char* op, const ShardIndex& index, const std::string& folder) {
  write_shard_file({op, index_path(folder)}, kIndexMagic,
                   {.nodes = index.partition.num_nodes(),
                    .parts = index.partition.parts,
                    .part = -1,
                    .rows = 0,
                    .entries = 0,
                    .flags = index.directed ? kShardDirected : 0,
                    .partition_fingerprint = index.partition.fingerprint(),
                    .fingerprint = index.fingerprints.sum().item<int64_t>()},
                   {index.partition.owners, index.fingerprints});
}

void write_shards(const Graph& graph, const Partition& partition, const std::string& folder) {
  std::filesystem::create_directories(folder);
  const Graph constant = with_constant_weights(graph);
  ShardIndex index{partition, graph.directed(), at::empty({partition.parts}, at::kLong)};
  int64_t* fingerprints = index.fingerprints.mutable_data_ptr<int64_t>();
  for (int64_t part = 0; part < partition.parts; ++part) {
    fingerprints[part] = write_shard("write_shards", shard_of(constant, partition, part), folder);
  }
  write_index("write_shards", index, folder);
}

ShardIndex read_shard_index(const std::string& folder) {
  const io::Origin origin{"read_shard_index", index_path(folder)};
  auto [header, arrays] = read_shard_file(origin, kIndexMagic);
  ShardIndex index{{}, (header.flags & kShardDirected) != 0, arrays[1]};
  try {
    index.partition = given_partition(header.nodes, arrays[0], header.parts);
  } catch (const c10::Error& error) {
    io::fail(origin, "malformed: ", error.what_without_backtrace());
  }
  if (index.partition.fingerprint() != header.partition_fingerprint) {
    io::fail(origin, "fingerprint mismatch: the owners are not those that the header describes");
  }
  return index;
}

namespace {

/// Offsets that rise from 0 to the number of entries, and columns that ascend in each row, all of them nodes.
void check_shard_rows(const io::Origin& origin, const Shard& shard) {
  const int64_t count = shard.rows.size(0), entries = shard.columns.size(0);
  const int64_t *row = shard.rows.const_data_ptr<int64_t>(), *offset = shard.offsets.const_data_ptr<int64_t>();
  const int32_t* column = shard.columns.const_data_ptr<int32_t>();
  bool sound = offset[0] == 0 && offset[count] == entries;
  for (int64_t r = 0; r < count && sound; ++r) {
    sound = offset[r] <= offset[r + 1] && offset[r + 1] <= entries && row[r] >= 0 && row[r] < shard.nodes &&
            (r == 0 || row[r - 1] < row[r]);
    for (int64_t e = offset[r]; e < offset[r + 1] && sound; ++e) {
      sound = column[e] >= 0 && column[e] < shard.nodes && (e == offset[r] || column[e - 1] < column[e]);
    }
  }
  if (!sound) io::fail(origin, "the rows are not those of a graph");
}

}  // namespace

Shard read_shard(const std::string& folder, const ShardIndex& index, int64_t part) {
  const Partition& partition = index.partition;
  TORCH_CHECK(part >= 0 && part < partition.parts, "read_shard: part must be in [0, ", partition.parts, "), got ",
              part);
  const io::Origin origin{"read_shard", shard_path(folder, part, partition.parts)};
  auto [header, arrays] = read_shard_file(origin, kShardMagic);
  if (header.nodes != partition.num_nodes() || header.parts != partition.parts || header.part != part ||
      header.partition_fingerprint != partition.fingerprint()) {
    io::fail(origin, "expected part ", part, " of ", partition.parts, " of the partition of ", partition.num_nodes(),
             " nodes in the index, got part ", header.part, " of ", header.parts, " of ", header.nodes,
             header.partition_fingerprint != partition.fingerprint() ? " nodes of another partition" : " nodes");
  }
  Shard shard{.nodes = header.nodes,
              .parts = header.parts,
              .part = part,
              .directed = (header.flags & kShardDirected) != 0,
              .partition_fingerprint = header.partition_fingerprint,
              .rows = arrays[0],
              .offsets = arrays[1],
              .columns = arrays[2],
              .weights = arrays[3]};
  check_shard_rows(origin, shard);
  const int64_t expected = index.fingerprints.const_data_ptr<int64_t>()[part];
  if (shard.fingerprint() != expected || header.fingerprint != expected) {
    io::fail(origin, "fingerprint mismatch: the shard belongs to another graph than the index");
  }
  return shard;
}

}  // namespace topomask
