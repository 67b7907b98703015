#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "topomask/export.h"
#include "topomask/graph.h"
#include "topomask/mask.h"

// Layers over graphs, x [N, in] → [N, out]. Node i takes from the nodes j of row i of the graph: its neighbours where
// the graph is undirected; to aggregate along edges (source, target) of a directed graph give graph.reversed(). Batches
// of graphs are one block-diagonal graph (GraphBatch), between whose parts nothing flows. The layers ignore
// the weights of edges, unless they say so, and self-loops of the graph; self-loops they need are added. Parameters are
// named, and initialised, as those of the layers of PyTorch Geometric with the same names, whose outputs and gradients
// they share.

namespace TOPOMASK_API topomask {

/// What message passing needs of a graph besides its edges, made once and shared between layers: the edges as they are
/// and with a loop at every node, each with the symmetric normalisation d_i^{-1/2} d_j^{-1/2}.
class GraphEdges {
 public:
  explicit GraphEdges(const Graph& graph);
  /// From what normalised() and normalised_with_loops() gave, such as rows of it that were gathered for a batch.
  GraphEdges(SparseMatrix normalised, SparseMatrix normalised_with_loops);

  int64_t num_nodes() const { return plain_.pattern->rows(); }
  const PatternPtr& neighbours() const { return plain_.pattern; }  ///< without loops
  const PatternPtr& with_loops() const { return looped_.pattern; }

  /// D^{-1/2} A D^{-1/2}; 0 at nodes without edges.
  const SparseMatrix& normalised() const { return plain_; }
  /// D̂^{-1/2} (A + I) D̂^{-1/2}, D̂ the degrees of A + I.
  const SparseMatrix& normalised_with_loops() const { return looped_; }
  /// A.
  SparseMatrix adjacency() const;
  /// Neighbours of each node, float, [N, 1], at least 1.
  at::Tensor counts() const;

  GraphEdges to(const at::TensorOptions& target) const;

 private:
  SparseMatrix plain_, looped_;
};

/// Kipf and Welling 2017: D̂^{-1/2}(A + I)D̂^{-1/2} X Wᵀ + b.
class GCNConv final : public torch::nn::Module {
 public:
  GCNConv(int64_t in, int64_t out, bool bias = true);
  at::Tensor forward(const at::Tensor& x, const GraphEdges& edges);

 private:
  torch::nn::Linear lin_;
  at::Tensor bias_;
};

/// Wu et al. 2019: the same normalisation applied `hops` times, then one linear layer.
class SGConv final : public torch::nn::Module {
 public:
  SGConv(int64_t in, int64_t out, int64_t hops = 1, bool bias = true);
  at::Tensor forward(const at::Tensor& x, const GraphEdges& edges);

 private:
  torch::nn::Linear lin_;
  int64_t hops_;
};

/// Defferrard et al. 2016: Σ_{k<order} T_k(L̂) X W_kᵀ + b, L̂ = 2L/λ_max − I of the normalised Laplacian with λ_max = 2.
class ChebConv final : public torch::nn::Module {
 public:
  ChebConv(int64_t in, int64_t out, int64_t order, bool bias = true);
  at::Tensor forward(const at::Tensor& x, const GraphEdges& edges);

 private:
  std::vector<torch::nn::Linear> lins_;
  at::Tensor bias_;
};

/// Hamilton et al. 2017, mean aggregation: W_l·mean_j x_j + b + W_r·x_i.
class SAGEConv final : public torch::nn::Module {
 public:
  SAGEConv(int64_t in, int64_t out, bool bias = true);
  at::Tensor forward(const at::Tensor& x, const GraphEdges& edges);

 private:
  torch::nn::Linear lin_l_, lin_r_;
};

/// Xu et al. 2019: nn((1 + ε)·x_i + Σ_j x_j), any sequential module on rows.
class GINConv final : public torch::nn::Module {
 public:
  explicit GINConv(torch::nn::Sequential nn, double eps = 0, bool train_eps = false);
  at::Tensor forward(const at::Tensor& x, const GraphEdges& edges);

 private:
  torch::nn::Sequential nn_;
  double constant_eps_;
  at::Tensor eps_;  // where it is learned
};

struct GATOptions {
  int64_t heads = 1;
  bool concat = true;  ///< heads side by side, [N, heads·out]; otherwise their mean, [N, out]
  double negative_slope = 0.2;
  bool bias = true;
  double dropout = 0;  ///< of attention weights while training: probability of 0, the others scaled to keep the mean
};

/// Veličković et al. 2018: weights softmax_j(LeakyReLU(a_dst·Wx_i + a_src·Wx_j)) over the neighbours and the node
/// itself.
class GATConv final : public torch::nn::Module {
 public:
  GATConv(int64_t in, int64_t out, const GATOptions& options = {});
  at::Tensor forward(const at::Tensor& x, const GraphEdges& edges);

 private:
  GATOptions options_;
  int64_t out_;
  torch::nn::Linear lin_;
  at::Tensor att_src_, att_dst_, bias_;
};

struct TransformerConvOptions {
  int64_t heads = 1;
  bool concat = true;
  bool root_weight = true;  ///< adds a linear layer of x_i
  bool bias = true;
};

/// Shi et al. 2021: softmax attention over the neighbours, the node itself left out.
class TransformerConv final : public torch::nn::Module {
 public:
  TransformerConv(int64_t in, int64_t out, const TransformerConvOptions& options = {});
  at::Tensor forward(const at::Tensor& x, const GraphEdges& edges);

 private:
  TransformerConvOptions options_;
  int64_t out_;
  torch::nn::Linear lin_key_, lin_query_, lin_value_, lin_skip_{nullptr};
};

struct GKATOptions {
  int64_t heads = 1;
  bool concat = true;  ///< heads side by side; otherwise their mean
  bool elu = true;     ///< after the heads are joined
};

/// Choromanski et al. 2022: exp(QKᵀ/√d) ⊙ M with rows normalised, over a mask M such as node_kernel_mask; no biases. In
/// the published layer the row maximum that is subtracted runs over all nodes and 1e-9 is added to each row sum; here
/// the maximum runs over M_ij ≠ 0, as in softmax_attention, and nothing is added, which needs no N² scores. The two
/// differ by 1e-9·exp(difference of the maxima), relatively: by nothing, unless a score outside the mask exceeds all
/// inside it by some ten. `published_rows` computes the published form, O(N²).
class GKATConv final : public torch::nn::Module {
 public:
  GKATConv(int64_t in, int64_t out, const GKATOptions& options = {});
  at::Tensor forward(const at::Tensor& x, const MaskPtr& mask);
  at::Tensor published_rows(const at::Tensor& x, const at::Tensor& kernel);  ///< kernel [N, N]

 private:
  std::vector<at::Tensor> project(const at::Tensor& x) const;  // q, k, v [H, N, out]
  at::Tensor joined(const at::Tensor& heads) const;

  GKATOptions options_;
  at::Tensor wq_, wk_, wv_;  // [H, in, out]
};

// From nodes to graphs: x [N, C], membership int64 [N] (GraphBatch::membership), `graphs` of them → [graphs, C]. An
// empty graph gives 0.
at::Tensor sum_pool(const at::Tensor& x, const at::Tensor& membership, int64_t graphs);
at::Tensor mean_pool(const at::Tensor& x, const at::Tensor& membership, int64_t graphs);
at::Tensor max_pool(const at::Tensor& x, const at::Tensor& membership, int64_t graphs);

/// Li et al. 2016: Σ_i softmax_i(gate(x_i))·x_i over the nodes of each graph, the gate a linear layer.
class AttentionPool final : public torch::nn::Module {
 public:
  explicit AttentionPool(int64_t width);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& membership, int64_t graphs);

 private:
  torch::nn::Linear gate_;
};

}  // namespace topomask
