#include "topomask/dist.h"

#include "dist/names.h"
#include "python_bridge/objects.h"

namespace topomask::python {
namespace {

// A partition travels as its owners and the number of parts, a shard as its tensors: they are plain values in Python.

Partition partition_of(const at::Tensor& owners, int64_t parts) {
  return {owners, parts};
}

std::vector<at::Tensor> tensors_of(const Shard& shard) {
  return {shard.rows, shard.offsets, shard.columns, shard.weights};
}

ShardIndex index_of(const at::Tensor& owners, int64_t parts, bool directed, const at::Tensor& fingerprints) {
  return {partition_of(owners, parts), directed, fingerprints};
}

Travellers travellers_of_list(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 4, "travel: walkers must be 4 tensors, got ", tensors.size());
  return {tensors[0], tensors[1], tensors[2], tensors[3]};
}

}  // namespace

/// The namespace `Dist` of functions: an empty class, since a TorchBind library has functions in classes only.
struct DistFunctions : torch::CustomClassHolder {};

void bind_dist(torch::Library& m) {
  auto c = m.class_<DistFunctions>("Dist");
  c.def_static("has_metis", [] { return has_metis(); });
  c.def_static("partition", [](const Ref<Graph>& graph, int64_t parts, const std::string& method) {
    return partition(graph->value, parts, kPartitionMethodNames.parse("partition", "method", method)).owners;
  });
  c.def_static("given_partition", [](int64_t nodes, const at::Tensor& owners, int64_t parts) {
    return given_partition(nodes, owners, parts).owners;
  });
  c.def_static("partition_fingerprint",
               [](const at::Tensor& owners, int64_t parts) { return partition_of(owners, parts).fingerprint(); });
  c.def_static("statistics", [](const Ref<Graph>& graph, const at::Tensor& owners, int64_t parts) {
    const PartitionStatistics s = partition_statistics(graph->value, partition_of(owners, parts));
    return std::make_tuple(s.rows, s.entries, s.halo, s.cut_entries);
  });
  c.def_static("shard", [](const Ref<Graph>& graph, const at::Tensor& owners, int64_t parts, int64_t part) {
    const Shard shard = shard_of(graph->value, partition_of(owners, parts), part);
    return std::make_tuple(tensors_of(shard), shard.fingerprint());
  });
  c.def_static("write_shards",
               [](const Ref<Graph>& graph, const at::Tensor& owners, int64_t parts, const std::string& folder) {
                 write_shards(graph->value, partition_of(owners, parts), folder);
               });
  c.def_static("shard_edge_list", [](const std::string& path, const at::Tensor& owners, int64_t parts,
                                     const std::string& folder, bool directed, at::ScalarType dtype) {
    shard_edge_list(path, partition_of(owners, parts), folder, directed, dtype);
  });
  c.def_static("read_index", [](const std::string& folder) {
    const ShardIndex index = read_shard_index(folder);
    return std::make_tuple(index.partition.owners, index.partition.parts, index.directed, index.fingerprints);
  });
  c.def_static("read_shard", [](const std::string& folder, const at::Tensor& owners, int64_t parts, bool directed,
                                const at::Tensor& fingerprints, int64_t part) {
    return tensors_of(read_shard(folder, index_of(owners, parts, directed, fingerprints), part));
  });
  c.def_static("travel", [](const Ref<Graph>& rows, const Ref<WalkOptions>& options, int64_t hop,
                            const std::vector<at::Tensor>& walkers) {
    const Travellers moved = travel(rows->value, options->value, hop, travellers_of_list(walkers));
    return std::vector<at::Tensor>{moved.starts, moved.numbers, moved.positions, moved.loads};
  });
  c.def_static("table_of_visits", [](const at::Tensor& rows, int64_t nodes, const Ref<WalkOptions>& options,
                                     const std::vector<at::Tensor>& visits, const at::Tensor& hops) {
    const WalkTable::Arrays a = table_of_visits(rows, nodes, options->value, travellers_of_list(visits), hops);
    return std::vector<at::Tensor>{a.offsets, a.columns, a.hops, a.loads, a.counts};
  });
  c.def_static("sample_walks_from",
               [](const Ref<Graph>& graph, const at::Tensor& starts, const Ref<WalkOptions>& options) {
                 const WalkTable::Arrays a = sample_walks_from(graph->value, starts, options->value);
                 return std::vector<at::Tensor>{a.offsets, a.columns, a.hops, a.loads, a.counts};
               });
}

}  // namespace topomask::python
