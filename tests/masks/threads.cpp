#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "support/mask_contract.h"
#include "topomask/coefficients.h"
#include "topomask/diffusion.h"
#include "topomask/encodings.h"
#include "topomask/forest.h"
#include "topomask/global_tokens.h"
#include "topomask/grf.h"
#include "topomask/masks.h"
#include "topomask/node_kernel.h"
#include "topomask/per_head.h"
#include "topomask/power_series.h"
#include "topomask/toeplitz.h"
#include "topomask/walking_mask.h"

// Every family at sizes at which torch and the libraries behind it share out sums among their threads.

namespace topomask {
namespace {

using testing::normal;

at::Tensor learnable(at::IntArrayRef shape, uint64_t seed) {
  return (normal(shape, seed).abs() * 0.3 + 0.1).to(at::kFloat).requires_grad_();
}

Graph graph_of(int64_t nodes) {
  return Graph::erdos_renyi(nodes, 4.0 / static_cast<double>(nodes), 3).normalised(0.9);
}

/// The same with an entry of W for each edge to learn.
Graph learnable_graph(int64_t nodes) {
  const Graph graph = graph_of(nodes);
  return graph.with_weights(graph.weights().clone().requires_grad_());
}

Forest forest_of(int64_t nodes) {
  return minimum_spanning_forest(graph_of(nodes));
}

WalkTable walks_of(int64_t nodes, uint64_t seed, bool products = false) {
  return sample_walks(
      graph_of(nodes),
      {.walkers = 6, .halting_probability = 0.4, .max_hops = 5, .group_products = products, .seed = seed});
}

at::Tensor lengths(int64_t nodes) {
  return learnable({nodes}, 5);
}

MaskPtr low_rank_diffusion(int64_t nodes, int64_t rank, const at::Tensor& lambda) {
  const double scale = 2 / std::sqrt(static_cast<double>(nodes));  // exp(λVᵀU) stays finite for any N
  const auto factor = [&](uint64_t seed) { return (learnable({nodes, rank}, seed).detach() * scale).requires_grad_(); };
  return low_rank_diffusion_mask(factor(1), factor(2), lambda);
}

struct Family {
  std::string name;
  std::function<MaskPtr(int64_t)> make;
};

int64_t side(int64_t nodes) {
  return std::llround(std::sqrt(static_cast<double>(nodes)));
}

/// Heads of learnable parameters; none: parameters without a dimension of heads.
using Heads = std::optional<int64_t>;

/// learnable() with heads in front of the shape.
auto parameters_for(Heads heads) {
  return [=](std::vector<int64_t> shape, uint64_t seed) {
    if (heads) shape.insert(shape.begin(), *heads);
    return learnable(shape, seed);
  };
}

std::vector<Family> families(Heads heads) {
  const auto per_head = parameters_for(heads);
  const auto head_f = [=] { return per_head({5}, 1); };
  return {
      {"none", [](int64_t n) { return none_mask(n); }},
      {"causal", [](int64_t n) { return causal_mask(n); }},
      {"neighbours", [](int64_t n) { return neighbours_mask(graph_of(n)); }},
      {"weighted neighbours", [](int64_t n) { return weighted_neighbours_mask(graph_of(n)); }},
      {"sparse",
       [=](int64_t n) {
         const Graph graph = graph_of(n);
         return sparse_mask({graph.pattern(), per_head({graph.num_entries()}, 1)});
       }},
      {"power series", [=](int64_t n) { return power_series_mask(graph_of(n), head_f()); }},
      {"power series of learnable weights", [=](int64_t n) { return power_series_mask(learnable_graph(n), head_f()); }},
      {"power series without sparse form",
       [=](int64_t n) { return power_series_mask(learnable_graph(n), per_head({4}, 1), {.max_sparse_entries = 1}); }},
      {"global tokens", [=](int64_t n) { return with_global_tokens(power_series_mask(graph_of(n), head_f()), 2); }},
      {"global tokens, causal", [](int64_t n) { return with_global_tokens(causal_mask(n), 2); }},
      {"diffusion", [=](int64_t n) { return diffusion_mask(learnable_graph(n), per_head({}, 1)); }},
      {"diffusion, normalised",
       [=](int64_t n) {
         return diffusion_mask(learnable_graph(n), per_head({}, 1), {.generator = Generator::normalised_laplacian});
       }},
      {"diffusion, Lanczos",
       [=](int64_t n) { return diffusion_mask(graph_of(n), per_head({}, 1), {.method = DiffusionMethod::lanczos}); }},
      {"product diffusion",
       [=](int64_t n) {
         return product_diffusion_mask({Graph::path(side(n)), Graph::cycle(side(n))}, per_head({}, 1));
       }},
      {"hypercube diffusion",
       [=](int64_t n) {
         return hypercube_diffusion_mask(std::llround(std::log2(static_cast<double>(n))), per_head({}, 1));
       }},
      {"low-rank diffusion", [=](int64_t n) { return low_rank_diffusion(n, 33, per_head({}, 3)); }},
      {"Toeplitz",
       [=](int64_t n) {
         return toeplitz_mask({side(n), side(n)}, per_head({2 * side(n) - 1, 2 * side(n) - 1}, 1));
       }},
      {"Toeplitz of a sequence", [=](int64_t n) { return toeplitz_mask({n}, per_head({2 * n - 1}, 1)); }},
      {"Toeplitz by distance",
       [=](int64_t n) {
         return toeplitz_distance_mask({side(n), side(n)}, per_head({2 * side(n) - 1}, 1));
       }},
      {"forest, exponential",
       [=](int64_t n) {
         return tree_mask(forest_of(n).with_weights(lengths(n)), DistanceFunction::exponential(-per_head({}, 1)));
       }},
      {"forest, table",
       [=](int64_t n) {
         const Forest forest(forest_of(n).parent());
         return tree_mask(forest, DistanceFunction::table(per_head({static_cast<int64_t>(forest.diameter()) + 1}, 1)));
       }},
      {"forest, low rank",
       [=](int64_t n) {
         return tree_mask(forest_of(n).with_weights(lengths(n).detach()),
                          DistanceFunction::smooth([](double x) { return 1 / (1 + x); }));
       }},
      {"free features",
       [=](int64_t n) {
         return free_features_mask(per_head({n, 9}, 1), per_head({n, 9}, 2));
       }},
      {"centrality", [=](int64_t n) { return centrality_mask(graph_of(n), per_head({8}, 1)); }},
      {"stochastic positional",
       [=](int64_t n) {
         return stochastic_positional_mask(n, per_head({33}, 1), per_head({33}, 2), per_head({33}, 3));
       }},
      {"GRF", [=](int64_t n) { return grf_mask(walks_of(n, 1), head_f()); }},
      {"GRF, debiased",
       [=](int64_t n) { return grf_mask(walks_of(n, 1, true), head_f(), {.diagonal = Diagonal::debiased}); }},
      {"GRF, two walk sets", [=](int64_t n) { return grf_mask(walks_of(n, 1), walks_of(n, 2), head_f()); }},
      {"GRF, asymmetric", [=](int64_t n) { return asymmetric_grf_mask(walks_of(n, 1), head_f()); }},
      {"GRF, ad hoc", [=](int64_t n) { return ad_hoc_mask(walks_of(n, 1), head_f()); }},
      {"GRF, exact head",
       [=](int64_t n) {
         const Graph graph = graph_of(n);
         const WalkTable walks = sample_walks(graph, {.walkers = 4, .max_hops = 5, .exact_hops = 1, .seed = 4});
         return hybrid_grf_mask(walks, graph, head_f());
       }},
      {"GRF, stitched",
       [=](int64_t n) {
         return stitched_grf_mask({walks_of(n, 1), walks_of(n, 2), walks_of(n, 3), walks_of(n, 4)}, per_head({3}, 1));
       }},
      {"GRF, projected", [=](int64_t n) { return projected_mask(grf_mask(walks_of(n, 1), head_f()), {.width = 16}); }},
      {"GRF of learnable weights",
       [=](int64_t n) {
         return grf_mask(sample_walks(learnable_graph(n), {.walkers = 6, .max_hops = 5, .seed = 1}), head_f());
       }},
      {"a mask per head",
       [](int64_t n) {
         return per_head_mask({grf_mask(walks_of(n, 1), learnable({5}, 1)), neighbours_mask(graph_of(n)),
                               power_series_mask(learnable_graph(n), learnable({4}, 2))});
       }},
      {"walking", [=](int64_t n) { return walking_mask(graph_of(n), head_f(), {.max_hops = 5, .seed = 3}); }},
      {"node kernel", [=](int64_t n) { return node_kernel_mask(walks_of(n, 1), per_head({}, 1)); }},
      {"node frequency", [=](int64_t n) { return node_frequency_mask(walks_of(n, 1), per_head({}, 1)); }},
  };
}

/// Whose M·x costs N² multiply-adds.
std::vector<Family> quadratic_families(Heads heads) {
  const auto per_head = parameters_for(heads);
  return {
      {"dense",
       [=](int64_t n) {
         return dense_mask(per_head({n, n}, 1));
       }},
      {"shortest path", [=](int64_t n) { return shortest_path_mask(graph_of(n), per_head({9}, 1)); }},
  };
}

void expect_same(const std::vector<Family>& list, int64_t nodes) {
  for (const Family& family : list) {
    SCOPED_TRACE(family.name);
    testing::expect_same_for_any_threads([&] { return family.make(nodes); });
  }
}

TEST(Threads, DoNotChangeMasksWithTheirDenseForms) {
  expect_same(families(2), 400);
  expect_same(quadratic_families(2), 400);
  expect_same(families(2), 144);  // strips too
}

TEST(ThreadsSlow, DoNotChangeMasksWhoseHeadsShareParameters) {
  expect_same(families({}), 400);
  expect_same(quadratic_families({}), 400);
}

// The gradient of λ sums over r² products: beyond 32 768 of them torch shares a sum out among threads.
TEST(ThreadsSlow, DoNotChangeTheGradientsOfLowRankDiffusion) {
  for (const Heads heads : {Heads(), Heads(1)}) {
    SCOPED_TRACE(heads.value_or(0));
    testing::expect_same_for_any_threads([&] { return low_rank_diffusion(200, 190, parameters_for(heads)({}, 3)); });
  }
}

TEST(ThreadsSlow, DoNotChangeMasksOfThousandsOfNodes) {
  expect_same(families(2), 2116);
}

TEST(ThreadsSlow, DoNotChangeLargeMasks) {
  expect_same(families(2), 8100);
  expect_same(quadratic_families(2), 1156);
}

}  // namespace
}  // namespace topomask
