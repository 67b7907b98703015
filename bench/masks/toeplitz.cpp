// Block Toeplitz on square grids with free offsets: M·X against the dense product, attention against the dense route,
// tiles against torch's softmax.

#include "topomask/toeplitz.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

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

/// Softmax by a route with the mask added, by torch with the same bias as a matrix, or by torch without a mask; one
/// head of width kHeadWidth. Gradients are in q, k, v and, but for torch's, the offsets.
Prepared softmax_case(int64_t side, const std::string& variant, const std::string& pass) {
  const MaskPtr mask = grid_mask(side, "");
  std::vector<at::Tensor> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(at::rand({1, 1, side * side, kHeadWidth}));
  const at::Tensor cotangent = at::randn(inputs[0].sizes());
  const bool backward = pass != "forward";
  for (at::Tensor& input : inputs) input.requires_grad_(backward);
  const at::Tensor bias = variant == "sdpa_bias" ? mask->dense().detach() : at::Tensor();
  const auto attend = [=](const std::string& by) {
    if (by == "fused_softmax")
      return softmax_attention(inputs[0], inputs[1], inputs[2], mask,
                               {.mask = SoftmaxMask::additive, .route = Route::fused});
    const auto added = bias.defined() ? std::optional(bias) : std::nullopt;
    return at::scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], added);
  };
  const auto run = [=]() -> Tensors {
    const at::AutoGradMode mode(backward);
    const at::Tensor out = attend(variant);
    if (!backward) return {out};
    Tensors wanted = inputs;
    if (variant == "fused_softmax") wanted.push_back(mask->parameters()[0]);
    return torch::autograd::grad({out}, wanted, {cotangent});
  };
  if (bias.defined() && !backward) {
    const at::NoGradGuard no_grad;
    check_close("softmax", attend("fused_softmax"), attend("sdpa_bias"), 1e-3);
  }
  return {.call = run, .counters = {}};
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
    for (const int64_t side : {64, 128}) {
      if (!causal.empty()) break;
      for (const std::string pass : {"forward", "forward_backward"}) {
        all.push_back({"toeplitz", side * side, "fused_attention", pass, true,
                       [=] { return attention_case(grid_mask(side, ""), Route::fused, pass); }});
        for (const std::string variant : {"fused_softmax", "sdpa", "sdpa_bias"}) {
          if (variant == "sdpa_bias" && pass != "forward") continue;
          all.push_back(
              {"toeplitz", side * side, variant, pass, true, [=] { return softmax_case(side, variant, pass); }});
        }
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
