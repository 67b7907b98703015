#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "nn/graph_models/readout.h"
#include "topomask/nn/graph_layers.h"
#include "topomask/nn/graph_model.h"

namespace topomask {

/// What a layer of a stack is to be.
struct StackPlace {
  int64_t layer = 0;
  int64_t in = 0;
  int64_t width = 0;  ///< of each head, where there are several; of the logits in a last layer that gives them
  int64_t heads = 1;
  bool logits = false;  ///< heads are averaged, and nothing follows the layer

  int64_t joined() const { return logits ? width : heads * width; }  ///< features with the heads side by side
};

/// One layer of a stack, of any kind.
class StackLayer : public torch::nn::Module {
 public:
  virtual void prepare(const GraphSet& set, int64_t epoch, GraphStructure& structure) const;  ///< edges, by default
  virtual at::Tensor forward(const at::Tensor& x, const GraphSample& sample, const GraphStructure& structure) = 0;
};

/// A layer of graph_layers.h, [N, in] → [N, out], over the edges.
template <class Conv>
class ConvLayer final : public StackLayer {
 public:
  explicit ConvLayer(std::shared_ptr<Conv> conv) : conv_(register_module("conv", std::move(conv))) {}
  at::Tensor forward(const at::Tensor& x, const GraphSample& sample, const GraphStructure& structure) override;

 private:
  std::shared_ptr<Conv> conv_;
};

struct StackRule {
  std::function<std::shared_ptr<StackLayer>(const StackPlace&)> layer;
  int64_t layers = 0;                                     ///< 0: as the options say
  bool by_head = false;                                   ///< widths are those of a head, and heads stand side by side
  at::Tensor (*activation)(const at::Tensor&) = nullptr;  ///< after each layer; null: the layer has its own
};

/// Layers one after another, each with dropout before it, then norm, activation and residual; and a readout.
class GraphStack final : public GraphModel {
 public:
  GraphStack(const GraphModelOptions& options, uint64_t seed, const StackRule& rule);

  at::Tensor forward(const GraphSample& sample, const GraphStructure& structure) override;

 protected:
  void prepare(const GraphSet& set, GraphStructure& structure) const override;

 private:
  at::Tensor after(const at::Tensor& y, size_t layer);  // norm and activation

  bool logits_;  // the last layer gives them
  at::Tensor (*activation_)(const at::Tensor&);
  std::vector<std::shared_ptr<StackLayer>> layers_;
  std::vector<std::shared_ptr<torch::nn::Module>> norms_;
  std::shared_ptr<GraphReadout> readout_;
};

at::Tensor relu_activation(const at::Tensor& x);
at::Tensor elu_activation(const at::Tensor& x);

/// A stack whose layers `make` returns as one of graph_layers.h: std::shared_ptr<Conv> make(StackPlace).
template <class Make>
std::shared_ptr<GraphModel> conv_stack(const GraphModelOptions& options, uint64_t seed, const Make& make, bool by_head,
                                       at::Tensor (*activation)(const at::Tensor&) = relu_activation,
                                       int64_t layers = 0);

}  // namespace topomask

#include "nn/graph_models/edges.h"

namespace topomask {

template <class Conv>
at::Tensor ConvLayer<Conv>::forward(const at::Tensor& x, const GraphSample& sample, const GraphStructure& structure) {
  return conv_->forward(x, edges_of(sample, structure));
}

template <class Make>
std::shared_ptr<GraphModel> conv_stack(const GraphModelOptions& options, uint64_t seed, const Make& make, bool by_head,
                                       at::Tensor (*activation)(const at::Tensor&), int64_t layers) {
  const auto layer = [make](const StackPlace& place) -> std::shared_ptr<StackLayer> {
    using Conv = typename decltype(make(place))::element_type;
    return std::make_shared<ConvLayer<Conv>>(make(place));
  };
  return std::make_shared<GraphStack>(options, seed, StackRule{layer, layers, by_head, activation});
}

}  // namespace topomask
