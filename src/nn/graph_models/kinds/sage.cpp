#include "nn/graph_models/stack.h"

namespace topomask {
namespace {

const GraphModelRegistration kSageModel("sage", [](const GraphModelOptions& options, uint64_t seed) {
  return conv_stack(
      options, seed, [](const StackPlace& p) { return std::make_shared<SAGEConv>(p.in, p.width); }, /*by_head=*/false);
});

}  // namespace
}  // namespace topomask
