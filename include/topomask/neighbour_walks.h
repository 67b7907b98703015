#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "topomask/export.h"
#include "topomask/graph.h"

namespace TOPOMASK_API topomask {

// Graphs of nearest neighbours that live for one step: a batch of B clouds of N points each becomes one block-diagonal
// graph of B·N nodes, node (b, i) being row b·N + i. Shapes depend on B, N, k and the hops alone, so that nothing is
// read back from a GPU between the points and the attention over walks on their graph.

/// int32 [B, N, k]: the k nearest neighbours of each point in its own cloud, for points [B, N, dims], float32 or
/// float64, finite; 1 ≤ k < N. Exact; ties go to the lower index. On a GPU all pairs of a cloud are compared and k,
/// dims ≤ 32.
at::Tensor cloud_neighbours(const at::Tensor& points, int64_t k);

/// The directed graph of cloud_neighbours, [B, N, k] → B·N nodes with k neighbours each, weights 1 in float32.
Graph cloud_graph(const at::Tensor& neighbours);
/// Likewise with an edge where either end chose the other. Its size depends on the points, so that the call waits for a
/// GPU.
Graph symmetric_cloud_graph(const at::Tensor& neighbours);

/// All walks of up to `hops` hops from every node of a graph of k neighbours each, W = A/k: row i has a path to each
/// node at its end, Σ_{t ≤ hops} kᵗ of them, nodes reached by several paths several times.
///
/// This is the walk table of a multiple of k^hops repelling walkers of exactly `hops` hops each (Reid et al. 2024 take
/// k = 3, 27 walkers, 3 hops): repelling walkers on one node leave in equal numbers to each of its k neighbours, so
/// that every path is taken equally often, whatever the random numbers. Hence R_t = Wᵗ without variance, and
///
///     M = Σ_t f_t R_t = Σ_{t ≤ hops} f_t Wᵗ,
///
/// the asymmetric GRF mask and the power series of the directed graph at once. Tests compare the three.
class NeighbourWalks {
 public:
  /// neighbours int32 [B, N, k] as cloud_neighbours makes them. O(B·N·k^hops) entries; at most 2³¹−1.
  NeighbourWalks(const at::Tensor& neighbours, int64_t hops);

  /// Whether `walkers` repelling walkers of `hops` hops take every path equally often.
  static bool takes(int64_t walkers, int64_t k, int64_t hops);

  int64_t num_nodes() const { return nodes_; }  ///< B·N
  int64_t paths() const { return paths_; }      ///< of a node
  int64_t hops() const { return hops_; }
  const at::Tensor& columns() const { return columns_; }  ///< int32 [B·N, paths]: ends of the paths, by hop

  /// M over the paths, [B·N·paths], for f [hops + 1]; differentiable in f.
  at::Tensor values(const at::Tensor& f) const;
  /// M as a matrix [B·N, B·N], differentiable in f: for tests.
  at::Tensor dense(const at::Tensor& f) const;

 private:
  friend at::Tensor neighbour_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&, const NeighbourWalks&,
                                        const at::Tensor&, double);

  int64_t nodes_ = 0, k_ = 0, hops_ = 0, paths_ = 0;
  at::Tensor columns_;
  std::vector<at::Tensor> pattern_;  ///< as the operators take it, with the transpose
};

/// out = D⁻¹(M ⊙ QKᵀ)V for q, k [..., m], features already (φ ≥ 0), and v [..., d] whose leading dimensions have
/// walks.num_nodes() elements; → [..., d]. f [hops + 1] in float32, or in float64 where q, k and v are. Differentiable
/// in q, k, v and f. D as in AttentionOptions.
at::Tensor neighbour_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const NeighbourWalks& walks, const at::Tensor& f, double eps = 1e-6);

}  // namespace topomask
