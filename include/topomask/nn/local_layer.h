#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/neighbour_walks.h"
#include "topomask/nn/point_options.h"
#include "topomask/power_series.h"
#include "topomask/walks.h"

namespace TOPOMASK_API topomask {

/// What local layers read of the positions of a step: made once for all blocks by LocalLayer::prepare.
struct LocalStructure {
  at::Tensor positions;                      ///< [B, M, 3], in float32 or float64, of all tokens
  at::Tensor neighbours = {};                ///< int32 [B, M, k]
  std::optional<NeighbourWalks> walks = {};  ///< on the directed graph of neighbours
  std::optional<WalkTable> table = {};       ///< sampled walks on it
  std::optional<Graph> graph = {};           ///< directed or symmetric, as the layer wants it; normalised
  PowerSeriesBasisPtr basis = {};            ///< of the powers of that graph
  at::Tensor senders = {};                   ///< int64 [B·A·k]: rows of the tokens that send to each anchor
  at::Tensor anchors = {};                   ///< int64 [B·A]: rows of the anchors
  at::Tensor nearest_anchor = {};            ///< int64 [B·M]: place of each token's anchor among the anchors
};

/// The local half of a block of the Interlacer: [B, M, width] → [B, M, width], added to its input by the block.
class LocalLayer : public torch::nn::Module {
 public:
  explicit LocalLayer(PointModelOptions options) : options_(std::move(options)) {}

  /// Adds what forward reads of the positions, unless another layer has done so.
  virtual void prepare(LocalStructure& structure) const = 0;
  virtual at::Tensor forward(const at::Tensor& x, const LocalStructure& structure) = 0;

 protected:
  const PointModelOptions& options() const { return options_; }

 private:
  PointModelOptions options_;
};

/// Null: blocks have no local layer.
using LocalLayerFactory = std::function<std::shared_ptr<LocalLayer>(const PointModelOptions&)>;

/// A local layer is a file in src/nn/points/local_layers with one of these at namespace scope; nothing else names it.
struct LocalLayerRegistration {
  LocalLayerRegistration(std::string name, LocalLayerFactory factory);
};

/// The layer that options.local names.
std::shared_ptr<LocalLayer> make_local_layer(const PointModelOptions& options);
std::vector<std::string> local_layer_names();

}  // namespace topomask
