#pragma once

#include <topomask/dist.h>

/// Softmax attention of the nodes of this rank over their neighbours, with the weights of the edges as the mask. q, k,
/// v [heads, n, d]: the rows of shard.rows; group: the name of a process group, in which this rank has the place
/// shard.part.
inline at::Tensor edge_attention(const topomask::Shard& shard, const topomask::Partition& partition,
                                 const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const std::string& group) {
  const topomask::SparsePattern edges(shard.rows.size(0), shard.nodes, shard.offsets, shard.columns);
  const topomask::LocalRows rows(partition, shard.part, edges, group);  // kept for many calls: it finds the halo
  return rows.softmax_attention(q, k, v, shard.weights);
}
