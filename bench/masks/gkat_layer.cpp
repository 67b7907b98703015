// A GKAT layer over the entries of its kernel compared with the published form over the N×N matrix: width 64, 4 heads.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "suite.h"
#include "topomask/nn/graph_layers.h"
#include "topomask/node_kernel.h"

namespace topomask::bench {
namespace {

constexpr int64_t kLargestDense = 4096;

/// Output and gradients of the layer for a fixed kernel: 50 walks of 3 hops from each node, as published.
Prepared layer(int64_t side, bool published, bool backward) {
  at::manual_seed(side);
  const auto gkat = std::make_shared<GKATConv>(64, 16, GKATOptions{.heads = 4});
  const Graph graph = Graph::grid({side, side});
  const MaskPtr mask = node_kernel_mask(sample_walks(graph, {.walkers = 50, .fixed_hops = 3, .seed = 1}))->frozen();
  const at::Tensor x = at::rand({side * side, 64}).requires_grad_(backward), cotangent = at::randn({side * side, 64});
  const auto run = [=](const at::Tensor& kernel) -> Tensors {
    const at::AutoGradMode mode(backward);
    const at::Tensor out = kernel.defined() ? gkat->published_rows(x, kernel) : gkat->forward(x, mask);
    if (!backward) return {out};
    Tensors inputs = gkat->parameters();
    inputs.push_back(x);
    Tensors results = torch::autograd::grad({out}, inputs, {cotangent});
    results.push_back(out.detach());
    return results;
  };
  at::Tensor kernel;
  if (side * side <= kLargestDense) {
    kernel = mask->dense();
    const Tensors ours = run({}), theirs = run(kernel);
    for (size_t i = 0; i < ours.size(); ++i) check_close("result " + std::to_string(i), ours[i], theirs[i], 1e-3);
  }
  if (!published) kernel.reset();
  return {.call = [=] { return run(kernel); },
          .counters = {{"entries", static_cast<double>(mask->sparse()->pattern->entries())}}};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t side : {16, 32, 64, 128, 256}) {
    for (const bool published : {false, true}) {
      if (published && side * side > kLargestDense) continue;
      for (const bool backward : {false, true}) {
        all.push_back({"gkat_layer", side * side, published ? "dense_kernel" : "sparse_kernel",
                       backward ? "forward_backward" : "forward", side > 32,
                       [=] { return layer(side, published, backward); }});
      }
    }
  }
  return all;
}

const MaskFamily registered(cases);

}  // namespace
}  // namespace topomask::bench
