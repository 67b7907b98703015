// Node kernels and encodings: attention by the route of each against the dense one, and what a bias by distance costs
// compared with torch's own indexing.

#include "topomask/encodings.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "suite.h"
#include "topomask/node_kernel.h"

namespace topomask::bench {
namespace {

constexpr int64_t kLargestDense = 4096;
constexpr int64_t kDistances = 8;

Graph grid(int64_t side) {
  return Graph::grid({side, side});
}

/// The released setting of GKAT, with a discount to learn.
MaskPtr node_kernel(int64_t side) {
  const WalkTable walks = sample_walks(grid(side), {.walkers = 50, .fixed_hops = 3, .seed = 1});
  return node_kernel_mask(walks, at::scalar_tensor(0.9).requires_grad_());
}

MaskPtr centrality(int64_t side) {
  return centrality_mask(grid(side), at::linspace(0.2, 0.6, 5).requires_grad_());
}

/// Ten sines by random features, or exactly; a constant keeps the mask positive.
MaskPtr positions(int64_t side, int64_t realisations) {
  const at::Tensor frequencies = at::linspace(0, 1, 10), amplitudes = at::linspace(1, 0.1, 10);
  return stochastic_positional_mask(side * side, frequencies.requires_grad_(), amplitudes.requires_grad_(), {},
                                    {.realisations = realisations});
}

/// ∂ Σ output/∂ inputs, the output included in what is timed.
Tensors gradients_of(const at::Tensor& output, const Tensors& inputs) {
  return torch::autograd::grad({output}, inputs, {at::ones_like(output)});
}

/// The values of the sparse form from λ, with the gradient back; their pattern is known.
Prepared kernel_values(const MaskPtr& mask) {
  const auto call = [=]() -> Tensors { return gradients_of(mask->sparse()->values, mask->parameters()); };
  call();
  return {.call = call, .counters = {{"entries", static_cast<double>(mask->sparse()->pattern->entries())}}};
}

/// M from a table of distances and back to the bias, by the mask or by torch's index_select.
Prepared bias(int64_t side, bool torch) {
  const at::Tensor distances = shortest_paths(grid(side), {.max_entries = side * side * side * side});
  const at::Tensor table = at::rand({kDistances + 1}).requires_grad_();
  const at::Tensor places = distances.clamp_max(kDistances - 1).view(-1);
  const MaskPtr mask = shortest_path_mask(distances, table);
  const auto run = [=](bool by_torch) -> Tensors {
    return gradients_of(by_torch ? table.index_select(0, places) : mask->dense(), {table});
  };
  check_close("gradient of the bias", run(false)[0], run(true)[0], 1e-2);  // torch sums in single precision
  return {.call = [=] { return run(torch); }, .counters = {}};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto attend = [&](const std::string& name, int64_t side, const std::function<MaskPtr()>& mask, Route route) {
    for (const std::string pass : {"forward", "forward_backward"}) {
      if (pass == "forward" && side * side <= kLargestDense && name != "positions_exact") continue;  // compared below
      all.push_back({name, side * side, std::string(to_string(route)) + "_attention", pass, side >= 128,
                     [=] { return attention_case(mask(), route, pass); }});
    }
  };
  for (const int64_t side : {32, 64, 128}) {
    const int64_t nodes = side * side;
    attend(
        "node_kernel", side, [=] { return node_kernel(side); }, Route::sparse);
    attend(
        "centrality", side, [=] { return centrality(side); }, Route::features);
    attend(
        "positions_exact", side, [=] { return positions(side, 0); }, Route::features);
    attend(
        "positions_64", side, [=] { return positions(side, 64); }, Route::features);
    all.push_back(
        {"node_kernel", nodes, "values", "forward_backward", false, [=] { return kernel_values(node_kernel(side)); }});
    if (nodes > kLargestDense) continue;
    all.push_back({"shortest_path", nodes, "breadth_first", "forward", false, [=] {
                     return Prepared{.call = [=]() -> Tensors { return {shortest_paths(grid(side))}; }, .counters = {}};
                   }});
    all.push_back(
        {"shortest_path", nodes, "bias", "forward_backward", false, [=] { return bias(side, /*torch=*/false); }});
    all.push_back(
        {"shortest_path", nodes, "bias_torch", "forward_backward", false, [=] { return bias(side, /*torch=*/true); }});
  }
  const auto compare = [&](const std::string& name, const auto& make, Route route) {
    const auto of_nodes = [=](int64_t nodes) { return make(std::lround(std::sqrt(nodes))); };
    const std::vector<Case> crossover = crossover_cases(name, of_nodes, route);
    all.insert(all.end(), crossover.begin(), crossover.end());
  };
  compare("node_kernel", node_kernel, Route::sparse);
  compare("centrality", centrality, Route::features);
  compare(
      "positions_64", [](int64_t side) { return positions(side, 64); }, Route::features);
  return all;
}

const MaskFamily registered(cases);

}  // namespace
}  // namespace topomask::bench
