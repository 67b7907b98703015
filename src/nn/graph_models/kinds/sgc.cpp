#include "nn/graph_models/stack.h"

namespace topomask {
namespace {

at::Tensor unchanged(const at::Tensor& x) {
  return x;
}

/// One linear layer after options.layers hops; with a linear readout it is of options.width features.
const GraphModelRegistration kSgcModel("sgc", [](const GraphModelOptions& options, uint64_t seed) {
  const int64_t hops = options.layers;
  return conv_stack(
      options, seed, [hops](const StackPlace& p) { return std::make_shared<SGConv>(p.in, p.width, hops); },
      /*by_head=*/false, unchanged, /*layers=*/1);
});

}  // namespace
}  // namespace topomask
