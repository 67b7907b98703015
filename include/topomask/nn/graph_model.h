#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "topomask/data/graph_set.h"
#include "topomask/export.h"
#include "topomask/nn/graph_options.h"
#include "topomask/sparse.h"
#include "topomask/walks.h"

namespace TOPOMASK_API topomask {

/// What a model derives from a data set once, so that a batch only gathers: random walks, node kernels, powers of the
/// adjacency, eigenvectors. Made on the CPU; everything in it is linear in what it describes.
struct GraphStructure {
  std::map<std::string, at::Tensor> node = {};        ///< [N, ...]: a row for each node
  std::map<std::string, SparseMatrix> matrices = {};  ///< N × N, block-diagonal
  std::map<std::string, WalkTable> walks = {};        ///< from every node; they stay inside their graph

  /// Floating-point values in another precision, everything on another device.
  GraphStructure to(const at::TensorOptions& target) const;
};

/// The part that belongs to the graphs of take(set, graphs), with the same renumbering of nodes. All graphs in order
/// give the structure itself, and what it caches with it. On the CPU.
GraphStructure take(const GraphStructure& structure, const GraphSet& set, at::IntArrayRef graphs);

/// Where each node is in its graph: tensors [N, ...] by name, with a row for each node.
using NodeRows = std::map<std::string, at::Tensor>;

/// A model over a batch of graphs, between which nothing flows.
///
///   GraphStructure all = model->structure(set);                      // once; again where start_epoch says so
///   logits = model->forward(take(set, graphs), take(all, set, graphs));
class GraphModel : public torch::nn::Module {
 public:
  GraphModel(GraphModelOptions options, uint64_t seed) : options_(std::move(options)), seed_(seed) {}

  /// What forward needs in addition to a sample; may be empty.
  GraphStructure structure(const GraphSet& set) const { return structure(set, positions(set)); }
  /// The same with positions that are given: of the nodes of a part of a graph, their positions in the whole.
  GraphStructure structure(const GraphSet& set, NodeRows positions) const;
  /// What the model receives about the position of each node in its graph: degrees, eigenvectors, return probabilities.
  virtual NodeRows positions(const GraphSet& set) const;

  /// Logits [graphs, classes], or [nodes, classes] where options().node_level. Sample, structure and model are on one
  /// device; the features have the model's dtype.
  virtual at::Tensor forward(const GraphSample& sample, const GraphStructure& structure) = 0;

  /// What `node` attends to: its attention weights over the nodes of the sample, [layers, heads, N], rows summing to 1
  /// where the mask is not negative; NaN for heads that a layer does not have. Undefined for models without attention.
  at::Tensor attention_rows(const GraphSample& sample, const GraphStructure& structure, int64_t node);

  /// Tells the model that an epoch begins. Returns true if walks are drawn again and structure() must be called again.
  virtual bool start_epoch(int64_t epoch);

  const GraphModelOptions& options() const { return options_; }
  uint64_t seed() const { return seed_; }
  int64_t epoch() const { return epoch_; }  ///< of the walks
  int64_t parameter_count() const;

 protected:
  /// Adds everything else to `structure`.
  virtual void prepare(const GraphSet& set, GraphStructure& structure) const;

 private:
  GraphModelOptions options_;
  uint64_t seed_;
  int64_t epoch_ = 0;
};

using GraphModelFactory = std::function<std::shared_ptr<GraphModel>(const GraphModelOptions&, uint64_t seed)>;

/// A kind of model is a file in src/nn/graph_models/kinds with one of these at namespace scope; nothing else names it.
struct GraphModelRegistration {
  GraphModelRegistration(std::string name, GraphModelFactory factory);
};

/// The model that options.kind names. Initial weights, walks and random features are functions of the seed; the state
/// of torch's generator is left as it was. options.features and options.classes must be set.
std::shared_ptr<GraphModel> make_graph_model(const GraphModelOptions& options, uint64_t seed = 0);

std::vector<std::string> graph_model_names();

}  // namespace topomask
