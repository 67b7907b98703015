// Suite `flops`: Figure 3 of Reid et al. (2024), operations against N on a path graph with 4 walkers that halt with
// probability 0.5, d = m = 8, counted from walk tables (mean of 10 seeds), with the time of one attention.

#include <ATen/ATen.h>

#include "harness.h"
#include "topomask/attention.h"
#include "topomask/grf.h"
#include "topomask/masks.h"
#include "topomask/theory.h"

namespace topomask::bench {
namespace {

constexpr int64_t kWidth = 8;
constexpr uint64_t kSeeds = 10;
constexpr int64_t kLargestDense = 16384;

WalkTable walks_on_path(int64_t nodes, uint64_t seed) {
  return sample_walks(Graph::path(nodes).normalised(), {.walkers = 4, .halting_probability = 0.5, .seed = seed});
}

double count(const std::string& variant, int64_t nodes) {
  double sum = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const AttentionFlops flops = attention_flops(walks_on_path(nodes, seed), kWidth, kWidth);
    sum += variant == "softmax" ? flops.softmax : variant == "linear" ? flops.linear : flops.grf;
  }
  return sum / kSeeds;
}

Prepared prepare(const std::string& variant, int64_t nodes) {
  at::manual_seed(1);
  const at::Tensor q = at::rand({nodes, kWidth}), k = at::rand({nodes, kWidth}), v = at::rand({nodes, kWidth});
  const MaskPtr mask =
      variant == "grf" ? grf_mask(walks_on_path(nodes, 0), at::pow(0.5, at::arange(8, at::kFloat))) : none_mask(nodes);
  const auto call = [=]() -> Tensors {
    const at::NoGradGuard no_grad;
    if (variant == "softmax") {
      const auto batched = [](const at::Tensor& x) { return x.unsqueeze(0).unsqueeze(0); };
      return {at::scaled_dot_product_attention(batched(q), batched(k), batched(v))};
    }
    return {attention(q, k, v, mask, {.features = FeatureMap::identity()})};
  };
  return {.call = call, .counters = {{"flop", count(variant, nodes)}}};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int64_t nodes = 64; nodes <= 65536; nodes *= 4) {
    for (const std::string variant : {"softmax", "linear", "grf"}) {
      if (variant == "softmax" && nodes > kLargestDense) continue;
      all.push_back({.mask = "path", .nodes = nodes, .variant = variant, .pass = "forward", .prepare = [=] {
                       return prepare(variant, nodes);
                     }});
    }
  }
  return all;
}

}  // namespace
}  // namespace topomask::bench

int main(int argc, char** argv) {
  return topomask::bench::run(argc, argv, {.suite = "flops", .repetitions = 3}, topomask::bench::cases());
}
