// Block Toeplitz on square grids with free offsets: M·X against the dense product, attention against the dense route.

#include "topomask/toeplitz.h"

#include <ATen/ATen.h>

#include <cmath>

#include "suite.h"

namespace topomask::bench {
namespace {

constexpr int64_t kColumns = 1024;  // what attention applies the mask to, a quarter of m·(d+1)
constexpr int64_t kLargestDense = 4096, kLargestAttention = 16384;

MaskPtr grid_mask(int64_t side, const std::string& causal) {
  at::manual_seed(side);
  const at::Tensor offsets = at::rand({2 * side - 1, 2 * side - 1}).add_(0.1).requires_grad_();
  return toeplitz_mask({side, side}, offsets, {.causality = causal.empty() ? Causality::none : Causality::row_major});
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string causal : {"", "_causal"}) {
    for (const int64_t side : {16, 32, 64, 128, 256}) {
      const int64_t nodes = side * side;
      const auto add = [&](const std::string& variant, const std::string& pass, bool slow, auto prepare) {
        all.push_back({"toeplitz" + causal, nodes, variant, pass, slow, prepare});
      };
      if (causal.empty()) {
        add("matmul", "forward", nodes > 4096, [=] {
          const MaskPtr mask = grid_mask(side, causal);
          return product_case(mask, kColumns, [mask](const at::Tensor& x) { return mask->matmul(x); });
        });
        if (nodes <= kLargestDense) {
          add("dense_matmul", "forward", nodes > 4096, [=] {
            const MaskPtr mask = grid_mask(side, causal);
            return product_case(mask, kColumns,
                                [dense = mask->dense().detach()](const at::Tensor& x) { return at::matmul(dense, x); });
          });
        }
      }
      if (nodes > kLargestAttention) continue;
      for (const std::string pass : {"forward", "forward_backward"}) {
        add("attention", pass, nodes > 4096,
            [=] { return attention_case(grid_mask(side, causal), Route::automatic, pass); });
        if (nodes > kLargestDense || pass == "forward") continue;  // forward: below, with the smaller ones
        add("dense_attention", pass, true, [=] { return attention_case(grid_mask(side, causal), Route::dense, pass); });
      }
    }
    const auto make = [=](int64_t nodes) { return grid_mask(std::lround(std::sqrt(nodes)), causal); };
    const std::vector<Case> crossover = crossover_cases("toeplitz" + causal, make, Route::operator_);
    all.insert(all.end(), crossover.begin(), crossover.end());
  }
  return all;
}

const MaskFamily registered(cases);

}  // namespace
}  // namespace topomask::bench
