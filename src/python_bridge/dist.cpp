#include "topomask/dist.h"

#include "dist/checksum.h"
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

/// Attention over ranks as C++ has it, by the name of a group; the package has its own, which the tests compare.
void bind_local_rows(torch::Library& m) {
  using Owners = const at::Tensor&;
  auto plan = m.class_<Value<HaloPlan>>("HaloPlan");
  plan.def(
      torch::init([](Owners owners, int64_t parts, int64_t part, const at::Tensor& needed, const std::string& group) {
        return hold(HaloPlan(partition_of(owners, parts), part, needed, group));
      }));
  plan.def("tensors", [](const Ref<HaloPlan>& self) {
    const auto& [index, send, recv, largest] = self->value.rows;
    return std::make_tuple(self->value.halo, index, send, recv, largest);
  });
  auto rows = m.class_<Value<LocalRows>>("LocalRows");
  rows.def(torch::init([](Owners owners, int64_t parts, int64_t part, const at::Tensor& offsets,
                          const at::Tensor& columns, const std::string& group) {
    const SparsePattern pattern(offsets.size(0) - 1, owners.size(0), offsets, columns);
    return hold(LocalRows(partition_of(owners, parts), part, pattern, group));
  }));
  rows.def("attention",
           [](const Ref<LocalRows>& self, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
              const at::Tensor& values, double eps) { return self->value.attention(q, k, v, values, eps); });
  rows.def("softmax_attention", [](const Ref<LocalRows>& self, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const at::Tensor& values, std::optional<double> scale,
                                   double eps) { return self->value.softmax_attention(q, k, v, values, scale, eps); });
}

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
  c.def_static("checksum", [](const at::Tensor& tensor) { return checksum(tensor); });
  m.class_<Value<TravelGround>>("TravelGround")
      .def("travel", [](const Ref<TravelGround>& self, int64_t hop, const std::vector<at::Tensor>& walkers) {
        const Travellers moved = self->value.travel(hop, travellers_of_list(walkers));
        return std::vector<at::Tensor>{moved.starts, moved.numbers, moved.positions, moved.loads};
      });
  c.def_static("travel_ground", [](const Ref<Graph>& rows, const Ref<WalkOptions>& options) {
    return hold(TravelGround(rows->value, options->value));
  });
  bind_local_rows(m);
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
