#include "nn/graph_models/stack.h"

namespace topomask {
namespace {

const GraphModelRegistration kTransformerConvModel("transformer_conv", [](const GraphModelOptions& options,
                                                                          uint64_t seed) {
  const auto layer = [](const StackPlace& p) {
    return std::make_shared<TransformerConv>(p.in, p.width,
                                             TransformerConvOptions{.heads = p.heads, .concat = !p.logits});
  };
  return conv_stack(options, seed, layer, /*by_head=*/true);
});

}  // namespace
}  // namespace topomask
