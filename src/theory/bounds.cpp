#include <ATen/ATen.h>

#include <numeric>

#include "core/checks.h"
#include "topomask/theory.h"

namespace topomask {
namespace {

void check_halting(const char* op, double p) {
  TORCH_CHECK(p > 0 && p < 1, op, ": halting_probability must be in (0, 1), got ", p);
}

void check_positive(const char* op, const char* name, double value) {
  TORCH_CHECK(value > 0, op, ": ", name, " must be > 0, got ", value);
  check_finite(op, name, value);
}

/// max over heads of Σ_k |f_k| growth^k.
double weighted_sum(const char* op, const at::Tensor& f, double growth) {
  TORCH_CHECK(f.defined() && (f.dim() == 1 || f.dim() == 2) && is_real(f.scalar_type()), op,
              ": f must be Float or Double, [K] or [H, K], got ", describe(f));
  check_finite(op, "f", f);
  if (f.numel() == 0) return 0;
  const at::Tensor powers = at::pow(growth, at::arange(f.size(-1), at::kDouble));
  const at::Tensor size = f.detach().to(at::kCPU, at::kDouble).abs();
  return at::where(size == 0, 0.0, size * powers).sum(-1).max().item<double>();  // 0·growth^k is 0 where that overflows
}

/// n³/(2n − 1)², by which the exponent of the theorem grows.
double rate(double n) {
  return n * n * n / ((2 * n - 1) * (2 * n - 1));
}

}  // namespace

double walk_constant(const Graph& graph, const at::Tensor& f, double p) {
  check_halting("walk_constant", p);
  double largest = 0;
  if (graph.num_entries() > 0) {
    const at::Tensor degree = at::repeat_interleave(graph.degrees(), graph.degrees());
    largest = (graph.weights().detach().to(at::kDouble).abs() * degree).max().item<double>();
  }
  return weighted_sum("walk_constant", f, largest / (1 - p));
}

double telescoping_walk_constant(const Graph& graph, const at::Tensor& f, double p, double scale) {
  check_halting("telescoping_walk_constant", p);
  check_finite("telescoping_walk_constant", "scale", scale);
  const at::Tensor degrees = graph.degrees(), reached = degrees.masked_select(degrees > 0).to(at::kDouble);
  const double spread = reached.numel() > 0 ? std::sqrt((reached.max() / reached.min()).item<double>()) : 1;
  return spread * weighted_sum("telescoping_walk_constant", f, std::abs(scale) / (1 - p));
}

double concentration_bound(int64_t walkers, double deviation, double constant) {
  TORCH_CHECK(walkers >= 1, "concentration_bound: walkers must be >= 1, got ", walkers);
  check_positive("concentration_bound", "deviation", deviation);
  check_positive("concentration_bound", "constant", constant);
  return 2 * std::exp(-deviation * deviation * rate(static_cast<double>(walkers)) / (2 * std::pow(constant, 4)));
}

int64_t walkers_for(double deviation, double probability, double constant) {
  TORCH_CHECK(probability > 0, "walkers_for: probability must be > 0, got ", probability);
  TORCH_CHECK(probability <= 1, "walkers_for: probability must be at most 1, got ", probability);
  check_positive("walkers_for", "deviation", deviation);
  check_positive("walkers_for", "constant", constant);
  const double needed = std::log(2 / probability) * 2 * std::pow(constant, 4) / (deviation * deviation);
  TORCH_CHECK(needed < 1e15, "walkers_for: deviation and probability must be within reach of 4e15 walkers, got ",
              deviation, " and ", probability, " with constant ", constant);
  if (rate(2) >= needed) return 1;  // the lowest point of the rate: any number will do
  // From n = 2 on the rate rises, and it is above n/4.
  int64_t low = 2, high = static_cast<int64_t>(4 * needed) + 3;
  while (low < high) {
    const int64_t middle = std::midpoint(low, high);
    if (rate(static_cast<double>(middle)) >= needed) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

int64_t feature_entries_bound(int64_t walkers, double p, double delta) {
  TORCH_CHECK(walkers >= 1, "feature_entries_bound: walkers must be >= 1, got ", walkers);
  check_halting("feature_entries_bound", p);
  TORCH_CHECK(delta > 0 && delta < 1, "feature_entries_bound: delta must be in (0, 1), got ", delta);
  const auto n = static_cast<double>(walkers);
  // 1 − (1 − δ)^{1/n} without cancellation.
  const double each = -std::expm1(std::log1p(-delta) / n);
  const double bound = std::ceil(n * std::log(each) / std::log1p(-p));
  TORCH_CHECK(bound < 9e18, "feature_entries_bound: walkers and halting_probability must give a bound below 2^63, got ",
              walkers, " and ", p);
  return static_cast<int64_t>(bound);
}

AttentionFlops attention_flops(const WalkTable& walks, int64_t features, int64_t value_dim) {
  TORCH_CHECK(features >= 0, "attention_flops: features must be >= 0, got ", features);
  TORCH_CHECK(value_dim >= 0, "attention_flops: value_dim must be >= 0, got ", value_dim);
  const auto n = static_cast<double>(walks.num_nodes()), m = static_cast<double>(features);
  const auto d = static_cast<double>(value_dim), entries = static_cast<double>(walks.pattern()->entries());
  return {.softmax = 4 * n * n * d, .linear = 4 * n * m * d, .grf = 4 * entries * m * d};
}

}  // namespace topomask
