#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "topomask/export.h"
#include "topomask/graph.h"
#include "topomask/mask.h"

namespace TOPOMASK_API topomask {

class ForestStructure;

/// A rooted forest with edge lengths, on the CPU. dist(i, j) is the length of the path between two nodes of one tree.
///
/// A value type: copies share storage, and what masks derive from it (orders, centroids) is made once, on first use. No
/// function here recurses: a path of millions of nodes is handled like any other tree.
class Forest {
 public:
  /// parent: int64 or int32 [N], −1 at roots; a cycle is refused, naming a node on it. weights: float32 or float64 [N],
  /// finite, weights[v] the length of the edge from v to its parent (the value at a root is not read); undefined: every
  /// edge has length 1, in float32. Weights that require grad are learnable in exponential masks.
  explicit Forest(const at::Tensor& parent, const at::Tensor& weights = {});
  /// An undirected graph without cycles, with its weights as lengths; a cycle, or a self-loop, is refused, naming an
  /// edge on it. Every tree is rooted at its lowest node.
  static Forest from_graph(const Graph& graph);

  int64_t num_nodes() const { return parent_.size(0); }
  int64_t num_trees() const;
  const at::Tensor& parent() const { return parent_; }    ///< int32 [N]
  const at::Tensor& weights() const { return weights_; }  ///< float32 or float64 [N]
  Forest with_weights(const at::Tensor& weights) const;   ///< the same trees with other lengths
  Forest to(at::ScalarType dtype) const;                  ///< weights as float32 or float64; differentiable

  /// float64 [N]: dist(node, ·), +∞ in other trees. O(N).
  at::Tensor distances(int64_t node) const;
  /// The largest distance inside a tree; lengths must not be negative. O(N).
  double diameter() const;

  const ForestStructure& structure() const { return *structure_; }  ///< for the masks

 private:
  Forest(at::Tensor parent, at::Tensor weights, std::shared_ptr<const ForestStructure> structure);

  at::Tensor parent_;
  at::Tensor weights_;
  std::shared_ptr<const ForestStructure> structure_;
};

/// A forest of least total weight that joins what the graph joins (Kruskal 1956): any undirected graph can be masked
/// through it. Ties go to the edge between lower nodes; differentiable in the graph's weights. O(E log E).
Forest minimum_spanning_forest(const Graph& graph);

/// f: a function of the distance, made from a few kinds and closed under sums and products. A value type.
///
/// Constant sums and products of exponentials, polynomials and cosines are *exact*: f(x+y) = Σ_kl g_k(x) B_kl g_l(y)
/// with a finite rank, to rounding. The rank of a product is at most the product of the ranks, twice that where both
/// oscillate.
class DistanceFunction {
 public:
  using Function = std::function<double(double)>;

  /// exp(a·x + b), a, b and exp(b) finite.
  static DistanceFunction exponential(double a, double b = 0.0);
  /// The same with learnable a and b: float32 or float64, finite, [], or [H] for a function per head; b undefined: 0.
  static DistanceFunction exponential(const at::Tensor& a, const at::Tensor& b = {});
  /// f[x] on integer distances, 0 from K on. [K], or [H, K] for a table per head, K ≥ 1; float32 or float64, finite;
  /// learnable.
  static DistanceFunction table(const at::Tensor& f);
  /// Any f, on integer distances: read once, at 0, 1, … up to the diameter.
  static DistanceFunction on_integers(Function f);
  /// Σ_k coefficients[k]·x^k. Rank: the number of coefficients.
  static DistanceFunction polynomial(std::vector<double> coefficients);
  /// cos(omega·x + phase). Rank 2.
  static DistanceFunction cosine(double omega, double phase = 0.0);
  /// A smooth f on real distances, replaced by Chebyshev expansions f̃ whose rank follows from the tolerance:
  /// |f̃(x) − f(x)| ≤ tolerance·max|f| at every distance of the forest. f is read on [0, 2·(largest distance to the
  /// centroid of a tree)], which must be free of kinks and poles. Exact where the distances are integers.
  static DistanceFunction smooth(Function f, double tolerance = 1e-6);

  static DistanceFunction product(const DistanceFunction& f, const DistanceFunction& g);
  static DistanceFunction sum(const DistanceFunction& f, const DistanceFunction& g);

  double operator()(double distance) const;  ///< not for learnable functions, which are tensors

  struct Rule;
  const Rule& rule() const { return *rule_; }  ///< for the masks

 private:
  explicit DistanceFunction(std::shared_ptr<const Rule> rule);
  std::shared_ptr<const Rule> rule_;
};

/// M_ij = f(dist(i, j)) for nodes of one tree, 0 between trees. Symmetric. How, and the cost of M·x per column:
///
///   f                                | lengths            | learnable          | cost
///   ---------------------------------|--------------------|--------------------|--------------------------------------
///   exponential                      | any                | a, b, the lengths  | two passes over the trees, O(N)
///   table, on_integers               | integers ≥ 0       | the table          | centroids, O(N log N) and the Hankel
///                                    |                    |                    | products, by FFT where tall:
///                                    |                    |                    | O(N log² N)
///   sums, products, smooth           | real ≥ 0           | –                  | centroids, O(N log N · rank)
///
/// Functions of the last row become tables where all lengths are integers. The dtype is that of a table or of a, else
/// that of the lengths; a and the lengths must agree. Forests of small trees are also offered as sparse matrices.
MaskPtr tree_mask(const Forest& forest, const DistanceFunction& f);

}  // namespace topomask
