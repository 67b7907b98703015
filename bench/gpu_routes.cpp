// The dense and the sparse route of attention compared on a GPU, and which of them the planner takes: exact
// series of 2 to 10 powers on grids of 196 to 1 024 nodes, 131 072 tokens × 3 heads, bfloat16. Milliseconds forward
// (forward + backward), on the terminal.

#include <torch/cuda.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>

#include "topomask/attention.h"
#include "topomask/power_series.h"

namespace topomask::bench {
namespace {

constexpr int64_t kTokens = 131072, kHeads = 3, kWidth = 64;

template <class F>
double milliseconds(const F& f) {
  constexpr int kWarm = 4, kCalls = 20;
  for (int i = 0; i < kWarm; ++i) f();
  torch::cuda::synchronize();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) f();
  torch::cuda::synchronize();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / kCalls;
}

void compare(int64_t side, int64_t powers) {
  const int64_t nodes = side * side;
  const at::Tensor alpha = at::ones({powers + 1}).requires_grad_();
  const MaskPtr mask = power_series_mask(Graph::grid({side, side}).normalised(0.9), alpha)->to(at::kCUDA);
  const auto random = [&] {
    return at::rand({kTokens / nodes, kHeads, nodes, kWidth}, at::device(at::kCUDA).dtype(at::kBFloat16));
  };
  const at::Tensor q = random().requires_grad_(), k = random().requires_grad_(), v = random().requires_grad_();
  const at::Tensor cotangent = random();
  AttentionOptions options;
  options.memory_budget = int64_t{60} << 30;
  std::printf("N %5ld, %2ld powers:", static_cast<long>(nodes), static_cast<long>(powers));
  for (const Route route : {Route::dense, Route::sparse}) {
    options.route = route;
    const auto call = [&] { return attention(q, k, v, mask, options); };
    const double both = milliseconds([&] { call().backward(cotangent); });
    const at::NoGradGuard no_grad;
    std::printf("  %s %.3f (%.3f)", to_string(route), milliseconds(call), both);
  }
  options.route = Route::automatic;
  std::printf("  planned: %s\n", to_string(explain(q, k, v, mask, options).route));
}

}  // namespace
}  // namespace topomask::bench

int main() {
  if (!torch::cuda::is_available()) {
    std::puts("no CUDA device");
    return 77;
  }
  for (const int64_t side : {14, 16, 24, 32}) {
    for (const int64_t powers : {2, 4, 6, 10}) topomask::bench::compare(side, powers);
  }
}
