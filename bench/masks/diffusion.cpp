// Heat kernels on square grids and hypercubes: M·X against as many sparse products as its degree says, and the closed
// forms against the generic mask.

#include "topomask/diffusion.h"

#include <ATen/ATen.h>

#include <cmath>

#include "suite.h"

namespace topomask::bench {
namespace {

constexpr int64_t kColumns = 64;

MaskPtr heat(const Graph& graph, double lambda) {
  const at::Tensor time = at::scalar_tensor(lambda).requires_grad_();
  return diffusion_mask(graph, time, {.generator = Generator::laplacian, .tolerance = 1e-4});
}

/// M·X, with the number of sparse products it takes.
Prepared counted(const MaskPtr& mask, std::function<at::Tensor(const at::Tensor&)> product) {
  Prepared prepared = product_case(mask, kColumns, product);
  prepared.counters["degree"] = static_cast<double>(chebyshev_degree(*mask));
  return prepared;
}

/// The same number of plain sparse products: what M·X would cost if a step were nothing else.
Prepared sparse_products(const Graph& graph, const MaskPtr& mask) {
  const int64_t degree = chebyshev_degree(*mask);
  at::manual_seed(mask->size());
  const at::Tensor x = at::rand({mask->size(), kColumns});
  const auto call = [=]() -> Tensors {
    at::Tensor y = x;
    for (int64_t k = 0; k < degree; ++k) y = matmul(graph.matrix(), y);
    return {y};
  };
  return {.call = call, .counters = {{"degree", static_cast<double>(degree)}}};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const double lambda : {1.0, 10.0}) {
    const std::string family = lambda == 1.0 ? "diffusion" : "diffusion_far";
    for (const int64_t side : {32, 64, 128, 256, 512}) {
      const int64_t nodes = side * side;
      const auto add = [&](const std::string& variant, const std::string& pass, bool slow, auto prepare) {
        all.push_back({family, nodes, variant, pass, slow, prepare});
      };
      add("matmul", "forward", false, [=] {
        const MaskPtr mask = heat(Graph::grid({side, side}), lambda);
        return counted(mask, [mask](const at::Tensor& x) { return mask->matmul(x); });
      });
      add("sparse_products", "forward", false, [=] {
        const Graph graph = Graph::grid({side, side}).normalised();
        return sparse_products(graph, heat(Graph::grid({side, side}), lambda));
      });
      add("product_matmul", "forward", false, [=] {
        const at::Tensor time = at::scalar_tensor(lambda);
        const MaskPtr mask = product_diffusion_mask({Graph::path(side), Graph::path(side)}, time);
        return product_case(mask, kColumns, [mask](const at::Tensor& x) { return mask->matmul(x); });
      });
      if (nodes > 4096) continue;
      add("attention", "forward_backward", true, [=] {
        return attention_case(heat(Graph::grid({side, side}), lambda), Route::automatic, "forward_backward");
      });
    }
    const auto make = [=](int64_t nodes) {
      const int64_t side = std::lround(std::sqrt(nodes));
      return heat(Graph::grid({side, side}), lambda);
    };
    const std::vector<Case> crossover = crossover_cases(family, make, Route::operator_);
    all.insert(all.end(), crossover.begin(), crossover.end());
  }
  for (const int64_t dimensions : {10, 14, 18}) {
    const auto mask = [=] { return hypercube_diffusion_mask(dimensions, at::scalar_tensor(0.3)); };
    all.push_back({"hypercube", int64_t{1} << dimensions, "matmul", "forward", false, [=] {
                     return product_case(mask(), kColumns, [m = mask()](const at::Tensor& x) { return m->matmul(x); });
                   }});
    all.push_back({"hypercube", int64_t{1} << dimensions, "chebyshev_matmul", "forward", false, [=] {
                     const MaskPtr generic = heat(Graph::hypercube(dimensions), 0.3);
                     return product_case(mask(), kColumns,
                                         [generic](const at::Tensor& x) { return generic->matmul(x); });
                   }});
  }
  return all;
}

const MaskFamily registered(cases);

}  // namespace
}  // namespace topomask::bench
