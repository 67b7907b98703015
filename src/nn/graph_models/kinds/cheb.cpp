#include "nn/graph_models/stack.h"

namespace topomask {
namespace {

const GraphModelRegistration kChebModel("cheb", [](const GraphModelOptions& options, uint64_t seed) {
  const int64_t order = options.order;
  return conv_stack(
      options, seed, [order](const StackPlace& p) { return std::make_shared<ChebConv>(p.in, p.width, order); },
      /*by_head=*/false);
});

}  // namespace
}  // namespace topomask
