#include "nn/graph_models/stack.h"

namespace topomask {
namespace {

const GraphModelRegistration kGatModel("gat", [](const GraphModelOptions& options, uint64_t seed) {
  const auto layer = [](const StackPlace& p) {
    return std::make_shared<GATConv>(p.in, p.width, GATOptions{.heads = p.heads, .concat = !p.logits});
  };
  return conv_stack(options, seed, layer, /*by_head=*/true, elu_activation);
});

}  // namespace
}  // namespace topomask
