#include <torch/nn/modules/activation.h>

#include "nn/graph_models/stack.h"

namespace topomask {
namespace {

/// With a learnable ε, starting at 0, and a perceptron of one hidden layer.
const GraphModelRegistration kGinModel("gin", [](const GraphModelOptions& options, uint64_t seed) {
  const double ratio = options.mlp_ratio;
  const auto layer = [ratio](const StackPlace& p) {
    const auto hidden = std::max<int64_t>(1, std::llround(ratio * static_cast<double>(p.width)));
    const torch::nn::Sequential rows(torch::nn::Linear(p.in, hidden), torch::nn::ReLU(),
                                     torch::nn::Linear(hidden, p.width));
    return std::make_shared<GINConv>(rows, 0.0, /*train_eps=*/true);
  };
  return conv_stack(options, seed, layer, /*by_head=*/false);
});

}  // namespace
}  // namespace topomask
