#include <ATen/ATen.h>

#include <algorithm>
#include <exception>

#include "core/checks.h"
#include "dist/collectives.h"
#include "topomask/dist.h"

namespace topomask {
namespace {

void check_needed(const char* op, const Partition& partition, int64_t part, const at::Tensor& needed) {
  TORCH_CHECK(needed.defined() && needed.dim() == 1 && needed.scalar_type() == at::kLong && needed.is_cpu(), op,
              ": needed must be Long [h] on cpu, got ", describe(needed));
  if (needed.numel() == 0) return;
  const int64_t nodes = partition.num_nodes(), least = needed.min().item<int64_t>(),
                most = needed.max().item<int64_t>();
  TORCH_CHECK(least >= 0 && most < nodes, op, ": needed must be in [0, ", nodes, "), got ", least < 0 ? least : most);
  TORCH_CHECK(needed.diff().gt(0).all().item<bool>(), op, ": needed must be ascending and distinct");
  const at::Tensor own = needed.masked_select(partition.owners.index_select(0, needed) == part);
  TORCH_CHECK(own.numel() == 0, op, ": needed must be nodes of other parts, got ", own[0].item<int64_t>(),
              ", which part ", part, " owns");
}

}  // namespace

HaloPlan::HaloPlan(const Partition& partition, int64_t part, const at::Tensor& needed, const std::string& group)
    : HaloPlan(
          "HaloPlan", partition, part, [&] { return needed; }, group) {}

HaloPlan::HaloPlan(const char* op, const Partition& partition, int64_t part, const std::function<at::Tensor()>& needed,
                   const std::string& group) {
  const int64_t parts = partition.parts;
  TORCH_CHECK(parts >= 1, op, ": partition must have at least one part, got ", parts);
  // Each rank tells all others how many rows it needs of them and its partition, or that it has refused its arguments:
  // nobody waits for a rank that has stopped.
  at::Tensor nodes, told = at::full({parts, 2}, -1, at::kLong);
  std::exception_ptr refusal;
  int64_t fingerprint = 0;
  try {
    TORCH_CHECK(part >= 0 && part < parts, op, ": part must be in [0, ", parts, "), got ", part);
    nodes = needed();
    check_needed(op, partition, part, nodes);
    fingerprint = partition.fingerprint();
    rows.recv_splits.assign(static_cast<size_t>(parts), 0);
    const at::Tensor counts = at::bincount(partition.owners.index_select(0, nodes), {}, parts);
    std::copy_n(counts.const_data_ptr<int64_t>(), parts, rows.recv_splits.begin());
    told.select(1, 0).copy_(counts);
    told.select(1, 1).fill_(fingerprint);
  } catch (const c10::Error&) {
    refusal = std::current_exception();
  }
  const std::vector<int64_t> one(static_cast<size_t>(parts), 1);
  const at::Tensor heard = parts == 1 ? told : AllToAll(told, one, one, group, 1, kMessageBytes).wait();
  if (refusal) std::rethrow_exception(refusal);
  const int64_t* of_rank = heard.const_data_ptr<int64_t>();
  for (int64_t r = 0; r < parts; ++r) {
    TORCH_CHECK(of_rank[2 * r] >= 0, op, ": rank ", r, " of the group has refused its arguments; its error says why");
  }
  for (int64_t r = 0; r < parts; ++r) {
    TORCH_CHECK(of_rank[2 * r + 1] == fingerprint, op,
                ": partition must be the same on all ranks, got another on rank ", r, " of the group than on rank ",
                part);
    rows.send_splits.push_back(of_rank[2 * r]);
  }
  halo = nodes.index_select(0, at::argsort(partition.owners.index_select(0, nodes), /*stable=*/true));
  if (parts == 1) {
    rows.send_index = nodes;  // none
    rows.largest = 0;
    return;
  }
  const int64_t most = std::max(*std::max_element(rows.send_splits.begin(), rows.send_splits.end()),
                                *std::max_element(rows.recv_splits.begin(), rows.recv_splits.end()));
  rows.largest = all_reduced(at::full({1}, most, at::kLong), "max", group, kMessageBytes).item<int64_t>();
  const at::Tensor asked =
      AllToAll(halo, rows.recv_splits, rows.send_splits, group, rows.largest, kMessageBytes).wait();
  rows.send_index = at::searchsorted(partition.nodes(part), asked);
}

}  // namespace topomask
