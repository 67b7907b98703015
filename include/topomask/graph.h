#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "topomask/export.h"
#include "topomask/sparse.h"

namespace TOPOMASK_API topomask {

enum class Duplicates {
  first,   ///< keep the edge once, with the weight given first
  sum,     ///< keep the edge once, with the sum of the weights
  refuse,  ///< an error naming the edge
};

enum class SelfLoops { keep, drop, refuse };

struct EdgeListOptions {
  bool directed = false;  ///< undirected: (u, v) also stores (v, u), and both spellings are the same edge
  Duplicates duplicates = Duplicates::first;
  SelfLoops self_loops = SelfLoops::keep;
};

struct KnnOptions {
  int64_t k = 3;
  /// Directed: row i holds exactly its k nearest; otherwise an edge where either end chose the other.
  bool directed = false;
};

/// An immutable weighted graph: the weighted adjacency matrix W as CSR (int64 offsets, int32 columns, float32 or
/// float64 weights).
///
/// A value type: copies share storage. An undirected edge is stored in both rows; a self-loop is stored once and counts
/// once in the degree, the number of stored neighbours. Isolated nodes are legal: their rows are empty. At most 2³¹−1
/// nodes. Builders give weight 1 to every edge, in float32, on the CPU, and refuse more than 2³³ entries.
class Graph {
 public:
  static Graph path(int64_t nodes);
  static Graph cycle(int64_t nodes);  ///< nodes = 1: no edge; nodes = 2: one edge
  /// Nodes in row-major order, an edge between nodes one step apart along one axis. `wrap` closes every axis into a
  /// ring.
  static Graph grid(const std::vector<int64_t>& dims, bool wrap = false);
  static Graph complete(int64_t nodes);
  static Graph star(int64_t nodes);            ///< node 0 is the centre
  static Graph hypercube(int64_t dimensions);  ///< 2^dimensions nodes; neighbours differ in one bit
  /// parent int64 or int32 [N], −1 at roots. A cycle is refused, naming a node on it.
  static Graph forest(const at::Tensor& parent);
  /// G(N, p): each pair independently with probability p, O(N + E) by geometric skipping; same seed, same graph.
  static Graph erdos_renyi(int64_t nodes, double probability, uint64_t seed = 0);
  /// k nearest neighbours (Euclidean, exact, k-d tree) of points [N, dims], float32 or float64. Ties go to the lower
  /// index; a point is never its own neighbour, but a point at the same place may be. Distances are compared in
  /// float64. Points on a GPU give a graph there: all N² pairs are compared; k ≤ 32, dims ≤ 32.
  static Graph knn(const at::Tensor& points, const KnnOptions& options = {});
  /// source, target: int64 or int32 [E]; weights: undefined (every edge weighs 1), or float32/float64 [E], finite,
  /// without grad. O(N + E): a counting sort by row, then a sort inside each row. Fewer than 2³² edges.
  static Graph from_edges(int64_t nodes, const at::Tensor& source, const at::Tensor& target,
                          const at::Tensor& weights = {}, const EdgeListOptions& options = {});
  /// offsets int64 [N+1], columns int32 [E] ascending in each row, weights float32/float64 [E], or undefined for 1.
  /// Undirected: pattern and weights must be symmetric, which is checked in O(N + E). Contiguous arrays are shared with
  /// the caller, not copied: what is written into them later is not checked. Arrays on a GPU, all on the same one, give
  /// a graph there; they are copied to the CPU once to be checked.
  static Graph from_csr(const at::Tensor& offsets, const at::Tensor& columns, const at::Tensor& weights,
                        bool directed = false);
  /// The adjacency over a square pattern that exists already; weights and symmetry as in from_csr.
  static Graph from_pattern(PatternPtr pattern, at::Tensor weights, bool directed);

  int64_t num_nodes() const { return pattern_->rows(); }
  int64_t num_entries() const {
    return pattern_->entries();
  }                           ///< stored entries of W: two per undirected edge, one per loop
  int64_t num_edges() const;  ///< edges, each undirected one counted once
  bool directed() const { return directed_; }
  const PatternPtr& pattern() const { return pattern_; }
  const at::Tensor& offsets() const { return pattern_->offsets(); }
  const at::Tensor& columns() const { return pattern_->columns(); }
  const at::Tensor& weights() const { return weights_; }
  SparseMatrix matrix() const { return {pattern_, weights_}; }

  at::Tensor degrees() const;  ///< int64 [N]: stored neighbours of each row (out-degree where directed)
  int64_t max_degree() const;

  /// W_ij = scale/√(d_i d_j) on the edges, scale finite, d the (out-)degree, 1 in place of 0. Replaces the weights, and
  /// depends on none of them: weights that require grad are refused. Normalise first, then `with_weights`.
  Graph normalised(double scale = 1.0) const;
  /// The same edges with other weights [num_entries], float32 or float64, finite; symmetric where the graph is
  /// undirected. Weights that require grad keep doing so, here and through `to`, `reversed` and the functions below.
  /// Power series, diffusion and sparse masks have gradients in them; what has none refuses them
  /// (docs/choosing-a-mask.md). A contiguous tensor is shared with the caller, not copied, so that a step of an
  /// optimiser reaches the graph: what is written into it later is not checked, and tables of walks made before do not
  /// follow; pass a clone to avoid both. On a GPU dtype and shape are checked, but the values are not looked at, since
  /// that would wait for the device.
  Graph with_weights(const at::Tensor& weights) const;
  /// Weights as float32 or float64, `graph.to(at::kDouble)`, refused where float32 cannot hold one of them; everything
  /// on another device, `graph.to(at::kCUDA)`.
  Graph to(const at::TensorOptions& target) const;
  at::Device device() const { return weights_.device(); }
  Graph reversed() const;  ///< Wᵀ; the graph itself where undirected

 private:
  friend class GraphBatch;
  friend Graph cartesian_product(const Graph& a, const Graph& b);
  friend Graph induced_subgraph(const Graph& graph, const at::Tensor& nodes);
  friend Graph permuted(const Graph& graph, const at::Tensor& order);

  Graph(PatternPtr pattern, at::Tensor weights, bool directed);

  PatternPtr pattern_;
  at::Tensor weights_;
  bool directed_ = false;
};

// The functions below work on graphs on a GPU too: there they copy the structure to the CPU, which waits for the
// device, build the result there and move it back. Graph::normalised and GraphBatch stay on the device.

/// Cartesian product: node (i, j) has index i·|b| + j, and W = W_a ⊗ I + I ⊗ W_b; self-loops of both sum on the
/// diagonal. Both directed or both not, one weight dtype.
Graph cartesian_product(const Graph& a, const Graph& b);

/// The graph among `nodes` (int64 or int32 [n], distinct), renumbered in the order given.
Graph induced_subgraph(const Graph& graph, const at::Tensor& nodes);

/// Node order[i] (int64 or int32 [N], a permutation) of the graph becomes node i: row i of the result is row order[i],
/// columns renamed alike.
Graph permuted(const Graph& graph, const at::Tensor& order);

/// int64 [N]: the component of each node, numbered 0, 1, … by their lowest node; directed graphs: weak components.
struct Components {
  at::Tensor labels;
  int64_t count = 0;
};
Components connected_components(const Graph& graph);

/// An order (int64 [N], as `permuted` takes it) that brings neighbours close: breadth-first from a peripheral node of
/// each component, neighbours by degree, reversed (Cuthill and McKee 1969, George 1971). Memory locality for the sparse
/// kernels.
at::Tensor reverse_cuthill_mckee(const Graph& graph);

/// Several graphs as one block-diagonal graph: no edge, hence no attention, between them.
class GraphBatch {
 public:
  explicit GraphBatch(
      std::span<const Graph> graphs);  ///< all directed or none, one weight dtype; may be empty of nodes

  const Graph& graph() const { return graph_; }
  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  const std::vector<int64_t>& offsets() const { return offsets_; }  ///< graph g owns rows offsets[g] … offsets[g+1]-1
  at::Tensor membership() const;                                    ///< int64 [N]: which graph each node belongs to
  /// x [..., N, C] back into one [..., N_g, C] view per graph.
  std::vector<at::Tensor> split(const at::Tensor& x) const;

 private:
  Graph graph_;
  std::vector<int64_t> offsets_;
};

}  // namespace topomask
