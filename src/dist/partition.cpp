#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "core/checks.h"
#include "dist/fingerprint.h"
#include "dist/metis.h"
#include "topomask/dist.h"

namespace topomask {
namespace {

/// Nodes in the order given, cut into ranges whose sizes differ by one at most.
at::Tensor owners_by_ranges(const at::Tensor& order, int64_t nodes, int64_t parts) {
  at::Tensor owners = at::empty({nodes}, at::kInt);
  int32_t* owner = owners.mutable_data_ptr<int32_t>();
  const int64_t* node = order.defined() ? order.const_data_ptr<int64_t>() : nullptr;
  for (int64_t part = 0; part < parts; ++part) {
    for (int64_t i = nodes * part / parts; i < nodes * (part + 1) / parts; ++i) {
      owner[node ? node[i] : i] = static_cast<int32_t>(part);
    }
  }
  return owners;
}

std::vector<int64_t> sizes_of(const at::Tensor& owners, int64_t parts) {
  std::vector<int64_t> sizes(static_cast<size_t>(parts));
  const int32_t* owner = owners.const_data_ptr<int32_t>();
  for (int64_t i = 0; i < owners.size(0); ++i) ++sizes[static_cast<size_t>(owner[i])];
  return sizes;
}

/// Gives every empty part the first node of the part that is the largest then.
void fill_empty_parts(at::Tensor& owners, int64_t parts) {
  std::vector<int64_t> sizes = sizes_of(owners, parts);
  int32_t* owner = owners.mutable_data_ptr<int32_t>();
  for (size_t part = 0; part < sizes.size(); ++part) {
    if (sizes[part] > 0) continue;
    const auto largest = std::max_element(sizes.begin(), sizes.end()) - sizes.begin();
    *std::find(owner, owner + owners.size(0), static_cast<int32_t>(largest)) = static_cast<int32_t>(part);
    --sizes[static_cast<size_t>(largest)];
    ++sizes[part];
  }
}

}  // namespace

at::Tensor Partition::nodes(int64_t part) const {
  TORCH_CHECK(part >= 0 && part < parts, "Partition: part must be in [0, ", parts, "), got ", part);
  return at::nonzero(owners == part).squeeze(1);
}

int64_t Partition::fingerprint() const {
  const int32_t* owner = owners.const_data_ptr<int32_t>();
  uint64_t sum = mixed_bits(static_cast<uint64_t>(parts));
  for (int64_t i = 0; i < num_nodes(); ++i) {
    sum += mixed_bits(static_cast<uint64_t>(i) << 32 | static_cast<uint32_t>(owner[i]));
  }
  return static_cast<int64_t>(sum);
}

Partition partition(const Graph& graph, int64_t parts, PartitionMethod method) {
  const int64_t nodes = graph.num_nodes();
  TORCH_CHECK(parts >= 1 && parts <= std::max<int64_t>(nodes, 1), "partition: parts must be in [1, N = ", nodes,
              "], got ", parts);
  TORCH_CHECK(method != PartitionMethod::metis || has_metis(),
              "partition: method must be cuthill_mckee or ranges, or a vector of owners, got metis, but this "
              "library was built without METIS");
  const Graph on_cpu = graph.device().is_cpu() ? graph : graph.to(at::TensorOptions(at::kCPU));
  if (parts == 1 || method == PartitionMethod::ranges) return {owners_by_ranges({}, nodes, parts), parts};
  if (method == PartitionMethod::cuthill_mckee || !has_metis()) {
    return {owners_by_ranges(reverse_cuthill_mckee(on_cpu), nodes, parts), parts};
  }
  at::Tensor owners = metis_owners(on_cpu, parts);
  fill_empty_parts(owners, parts);
  return {std::move(owners), parts};
}

Partition given_partition(int64_t nodes, const at::Tensor& owners, int64_t parts) {
  TORCH_CHECK(parts >= 1, "partition: parts must be >= 1, got ", parts);
  TORCH_CHECK(owners.defined() && owners.dim() == 1 && owners.size(0) == nodes &&
                  (owners.scalar_type() == at::kInt || owners.scalar_type() == at::kLong),
              "partition: owners must be Int or Long [N = ", nodes, "], got ", describe(owners));
  const at::Tensor given = owners.cpu().to(at::kLong).contiguous();
  const int64_t* owner = given.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < nodes; ++i) {
    TORCH_CHECK(owner[i] >= 0 && owner[i] < parts, "partition: owners must be in [0, parts = ", parts, "), got ",
                owner[i], " for node ", i);
  }
  Partition made{given.to(at::kInt).contiguous(), parts};
  const std::vector<int64_t> sizes = sizes_of(made.owners, parts);
  const auto empty = std::find(sizes.begin(), sizes.end(), 0) - sizes.begin();
  TORCH_CHECK(empty == parts || nodes == 0, "partition: every part must own a node, got none for part ", empty, " of ",
              parts);
  return made;
}

PartitionStatistics partition_statistics(const Graph& graph, const Partition& partition) {
  TORCH_CHECK(partition.num_nodes() == graph.num_nodes(), "partition_statistics: the partition must have the nodes of ",
              "the graph, ", graph.num_nodes(), ", got ", partition.num_nodes());
  const int64_t nodes = graph.num_nodes();
  const at::Tensor offsets = graph.offsets().cpu(), columns = graph.columns().cpu();
  const int64_t* offset = offsets.const_data_ptr<int64_t>();
  const int32_t* column = columns.const_data_ptr<int32_t>();
  const int32_t* owner = partition.owners.const_data_ptr<int32_t>();
  const auto zeros = [&] { return at::zeros({partition.parts}, at::kLong); };
  PartitionStatistics found{zeros(), zeros(), zeros()};
  int64_t* rows = found.rows.mutable_data_ptr<int64_t>();
  int64_t* entries = found.entries.mutable_data_ptr<int64_t>();
  int64_t* halo = found.halo.mutable_data_ptr<int64_t>();

  // Nodes part by part, so that one mark per column tells whether the part has met it.
  const at::Tensor order = at::argsort(partition.owners, /*stable=*/true);
  const int64_t* node = order.const_data_ptr<int64_t>();
  std::vector<int32_t> met(static_cast<size_t>(nodes), -1);
  for (int64_t k = 0; k < nodes; ++k) {
    const int64_t i = node[k];
    const int32_t part = owner[i];
    ++rows[part];
    entries[part] += offset[i + 1] - offset[i];
    for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
      const int32_t j = column[e];
      if (owner[j] == part) continue;
      ++found.cut_entries;
      if (met[static_cast<size_t>(j)] == part) continue;
      met[static_cast<size_t>(j)] = part;
      ++halo[part];
    }
  }
  return found;
}

}  // namespace topomask
