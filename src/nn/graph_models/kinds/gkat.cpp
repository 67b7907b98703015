#include "nn/graph_models/mask_dropout.h"
#include "nn/graph_models/stack.h"
#include "topomask/nn/graph_mask.h"

namespace topomask {
namespace {

/// Softmax attention under the mask that the options name, no biases; ELU follows, but not on logits.
class GkatLayer final : public StackLayer {
 public:
  GkatLayer(const StackPlace& place, const GraphModelOptions& options, uint64_t seed)
      : dropout_(options, place.heads),
        conv_(register_module("conv",
                              std::make_shared<GKATConv>(
                                  place.in, place.width,
                                  GKATOptions{.heads = place.heads, .concat = !place.logits, .elu = !place.logits}))),
        mask_(register_module("mask", make_graph_mask({options, place.layer, place.heads, seed, /*softmax=*/true}))) {}

  void prepare(const GraphSet& set, int64_t epoch, GraphStructure& structure) const override {
    mask_->prepare(set, epoch, structure);
  }

  at::Tensor forward(const at::Tensor& x, const GraphSample& sample, const GraphStructure& structure) override {
    return conv_->forward(x, dropout_(mask_->mask(sample, structure), is_training()));
  }

 private:
  MaskDropout dropout_;
  std::shared_ptr<GKATConv> conv_;
  std::shared_ptr<GraphMask> mask_;
};

/// With the mask `neighbours` it is what Choromanski et al. 2022 compare with as GAT.
const GraphModelRegistration kGkatModel("gkat", [](const GraphModelOptions& options, uint64_t seed) {
  const auto layer = [options, seed](const StackPlace& place) {
    return std::make_shared<GkatLayer>(place, options, seed);
  };
  return std::make_shared<GraphStack>(options, seed, StackRule{.layer = layer, .by_head = true});
});

}  // namespace
}  // namespace topomask
