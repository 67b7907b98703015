#include "nn/graph_models/stack.h"

namespace topomask {
namespace {

const GraphModelRegistration kGatModel("gat", [](const GraphModelOptions& options, uint64_t seed) {
  const double dropout = options.attention_dropout;
  const auto layer = [dropout](const StackPlace& p) {
    return std::make_shared<GATConv>(p.in, p.width,
                                     GATOptions{.heads = p.heads, .concat = !p.logits, .dropout = dropout});
  };
  return conv_stack(options, seed, layer, /*by_head=*/true, elu_activation);
});

}  // namespace
}  // namespace topomask
