#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "nn/graph_models/edges.h"
#include "nn/graph_models/graph_attention.h"
#include "nn/graph_models/positions/inputs.h"
#include "nn/graph_models/readout.h"
#include "nn/initialise.h"
#include "nn/layers.h"

namespace topomask {
namespace {

class GraphTransformer final : public GraphModel {
 public:
  GraphTransformer(const GraphModelOptions& options, uint64_t seed)
      : GraphModel(options, seed),
        embedding_(register_module("embedding", torch::nn::Linear(options.features, options.width))),
        inputs_(register_module("inputs", std::make_shared<StructuralInputs>(options))),
        norm_(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})))),
        readout_(register_module("readout", std::make_shared<GraphReadout>(options, options.width, true))) {
    for (int64_t l = 0; l < options.layers; ++l) {
      blocks_.push_back(register_module("block" + std::to_string(l), std::make_shared<GraphBlock>(options, l, seed)));
    }
    at::Generator generator = at::detail::createCPUGenerator(seed);
    initialise(*this, generator);
    const at::NoGradGuard no_grad;
    for (const auto& block : blocks_) {
      at::Tensor& wire = block->attention().wire();
      if (wire.defined()) wire.normal_(0, options.wire_scale, generator);
    }
  }

  NodeRows positions(const GraphSet& set) const override { return inputs_->positions(set); }

  at::Tensor forward(const GraphSample& sample, const GraphStructure& structure) override {
    check_sample(sample, options().features);
    const GraphContext context{sample, structure, inputs_->eigenvectors(sample, structure)};
    at::Tensor x = topomask::forward(embedding_, sample.features);
    x = inputs_->add_to(x, context.eigenvectors, sample, structure);
    x = at::dropout(x, options().dropout, is_training());
    for (const auto& block : blocks_) x = block->forward(x, context);
    return readout_->forward(topomask::forward(norm_, x), sample);
  }

 protected:
  void prepare(const GraphSet& set, GraphStructure& structure) const override {
    for (const auto& block : blocks_) block->attention().mask().prepare(set, epoch(), structure);
  }

 private:
  torch::nn::Linear embedding_;
  std::shared_ptr<StructuralInputs> inputs_;
  torch::nn::LayerNorm norm_;
  std::shared_ptr<GraphReadout> readout_;
  std::vector<std::shared_ptr<GraphBlock>> blocks_;
};

const GraphModelRegistration kGraphTransformer("transformer", [](const GraphModelOptions& options, uint64_t seed) {
  return std::make_shared<GraphTransformer>(options, seed);
});

}  // namespace
}  // namespace topomask
