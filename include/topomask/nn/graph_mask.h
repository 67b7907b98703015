#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "topomask/data/graph_set.h"
#include "topomask/export.h"
#include "topomask/mask.h"
#include "topomask/nn/graph_model.h"
#include "topomask/nn/graph_options.h"

namespace TOPOMASK_API topomask {

/// What the mask of one layer of a graph model is made from.
struct GraphMaskSetting {
  GraphModelOptions options;
  int64_t layer = 0;
  int64_t heads = 1;
  uint64_t seed = 0;     ///< of the model
  bool softmax = false;  ///< attention needs the mask's entries one by one
};

/// The mask of one layer over any batch of graphs, as a module that owns its learned parameters. Layers register it as
/// "mask", so that parameter_kind recognises its parameters.
class GraphMask : public torch::nn::Module {
 public:
  explicit GraphMask(GraphMaskSetting setting) : setting_(std::move(setting)) {}

  /// Adds to `structure` what mask() reads of a data set, unless another layer has done so.
  virtual void prepare(const GraphSet& set, int64_t epoch, GraphStructure& structure) const;

  /// Over the nodes of the sample, 0 between graphs, with the parameters' present values. Null: 1 inside each graph and
  /// attention through kernels, which takes block_linear_attention instead of a mask.
  virtual MaskPtr mask(const GraphSample& sample, const GraphStructure& structure) const = 0;

  /// The function that is learned, [heads, K], with its present values: of hops or distances, or what is added to
  /// logits at each distance. Undefined, as here, for masks without one; the report draws it.
  virtual at::Tensor modulation() const { return {}; }

 protected:
  const GraphMaskSetting& setting() const { return setting_; }
  at::Tensor learnt(const std::string& name, const at::Tensor& start);  ///< a parameter, or a buffer: learn_mask

 private:
  GraphMaskSetting setting_;
};

/// A mask made from a function f of hops or distances for each head, which starts at exp(−decay·k). The parameter is f
/// under its name, or with options.positive_mask log f under "log_" and its name.
class FunctionGraphMask : public GraphMask {
 public:
  FunctionGraphMask(const GraphMaskSetting& setting, const std::string& name);

  at::Tensor modulation() const override { return setting().options.learn_mask ? f() : at::Tensor(); }

 protected:
  int64_t terms() const { return setting().options.hops + 1; }
  at::Tensor f() const;                    ///< [heads, terms], differentiable in the parameter
  at::TensorOptions working_type() const;  ///< dtype and device of the parameter

 private:
  at::Tensor learned_;
};

using GraphMaskFactory = std::function<std::shared_ptr<GraphMask>(const GraphMaskSetting&)>;

/// A mask is a file in src/nn/graph_models/masks with one of these at namespace scope; nothing else names it.
struct GraphMaskRegistration {
  GraphMaskRegistration(std::string name, GraphMaskFactory factory);
};

/// The mask that setting.options.mask names.
std::shared_ptr<GraphMask> make_graph_mask(const GraphMaskSetting& setting);

/// Whether the mask that options.mask names is a FunctionGraphMask, which options.positive_mask applies to.
bool has_mask_function(const GraphModelOptions& options);

std::vector<std::string> graph_mask_names();

/// Kernel attention inside each graph without a mask: out_i = φ(q_i)ᵀS_g / φ(q_i)ᵀz_g over the graph g of node i, S_g =
/// Σ_{j ∈ g} φ(k_j)v_jᵀ and z_g = Σ φ(k_j); the denominator kept from zero as in AttentionOptions.
///
/// q, k [H, N, m], features already, v [H, N, d] → [H, N, d]; membership int64 [N], ascending. Differentiable in q, k
/// and v. N·m·(d+1) multiply-adds twice; sums go through tiles of 32 nodes, so that memory is that of the inputs and
/// (N/32 + graphs)·H·m·(d+1), and nothing is added atomically.
at::Tensor block_linear_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const at::Tensor& membership, int64_t graphs, double eps = 1e-6);

}  // namespace topomask
