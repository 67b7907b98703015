// The gradient of a mask where it is 0: weights M·exp(s)/Σ M·exp(s) have a slope in M_ij there too.

#include <ATen/core/grad_mode.h>

#include <functional>

#include "support/compare.h"
#include "support/devices.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/diffusion.h"
#include "topomask/masks.h"
#include "topomask/power_series.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;
using testing::normal;

using MakeMask = std::function<MaskPtr(const at::Tensor&)>;

struct Problem4 {
  at::Tensor q, k, v, cotangent;

  explicit Problem4(int64_t nodes, double spread = 0.7)
      : q(spread * normal({2, nodes, 4}, 1)),
        k(spread * normal({2, nodes, 4}, 2)),
        v(normal({2, nodes, 3}, 3)),
        cotangent(normal({2, nodes, 3}, 4)) {}

  at::Tensor out(const MaskPtr& mask, Route route, at::Device device = at::kCPU) const {
    return softmax_attention(q.to(device), k.to(device), v.to(device), mask->to(device), {.route = route}).to(at::kCPU);
  }
};

/// ∂⟨out, cotangent⟩/∂θ by differences to one side, exact to second order: θ may be at the end of what is allowed.
at::Tensor by_differences(const Problem4& p, const MakeMask& make, const at::Tensor& theta, Route route, double h) {
  const at::NoGradGuard no_grad;
  at::Tensor result = at::zeros_like(theta);
  const auto value = [&](int64_t i, double step) {
    at::Tensor moved = theta.clone();
    moved.view(-1)[i] += step;
    return (p.out(make(moved), route) * p.cotangent).sum().item<double>();
  };
  for (int64_t i = 0; i < theta.numel(); ++i) {
    result.view(-1)[i] = (-3 * value(i, 0) + 4 * value(i, h) - value(i, 2 * h)) / (2 * h);
  }
  return result;
}

void expect_gradient(const Problem4& p, const MakeMask& make, const at::Tensor& start, double h = 1e-5) {
  std::vector<Route> routes{Route::dense, Route::automatic};
  if (make(start)->sparse()) routes.push_back(Route::sparse);
  const at::Tensor slopes = by_differences(p, make, start, Route::dense, h);
  // Each slope at a zero is there to be lost; that of the only entry of a row is 0, since it cancels.
  EXPECT_GT(slopes.masked_select(start == 0).abs().min().item<double>(), 1e-7);
  for (const at::Device device : testing::devices()) {
    for (const Route route : routes) {
      const at::Tensor theta = start.clone().requires_grad_();
      const at::Tensor gradient = gradients(p.out(make(theta), route, device), p.cotangent, {theta})[0];
      EXPECT_TRUE(close(gradient, slopes, 1e-5)) << to_string(route) << " on " << device;
    }
  }
}

TEST(SoftmaxAtZeros, ADenseMaskHasItsGradientThere) {
  at::Tensor matrix = normal({7, 7}, 5).abs() + 0.2;
  matrix.masked_fill_(normal({7, 7}, 6) > 0.3, 0.0);
  matrix.diagonal().fill_(0.7);  // no row is empty
  ASSERT_GT((matrix == 0).sum().item<int64_t>(), 10);
  expect_gradient(
      Problem4(7), [](const at::Tensor& m) { return dense_mask(m); }, matrix);
  expect_gradient(
      Problem4(7), [](const at::Tensor& m) { return dense_mask(m); }, at::eye(7, at::kDouble));
}

TEST(SoftmaxAtZeros, ASparseMaskHasItsGradientThereAndAbsentEntriesAreExcluded) {
  const Graph graph = Graph::grid({3, 3});
  const PatternPtr pattern = neighbours_mask(graph)->sparse()->pattern;
  at::Tensor values = normal({pattern->entries()}, 5).abs() + 0.2;
  values.slice(0, 1, values.size(0), 3).zero_();
  const auto make = [&](const at::Tensor& v) { return sparse_mask({pattern, v}); };
  expect_gradient(Problem4(9), make, values);
  // What stands in k and v of an absent pair does not matter.
  Problem4 p(9), other(9);
  other.k.select(1, 8).add_(3);
  other.v.select(1, 8).add_(1);
  for (const Route route : {Route::dense, Route::sparse}) {
    EXPECT_TRUE(close(p.out(make(values), route).select(1, 0), other.out(make(values), route).select(1, 0), 1e-12));
  }
}

TEST(SoftmaxAtZeros, ASeriesHasItsGradientAtZeroCoefficients) {
  const Graph graph = Graph::grid({3, 4}).to(at::kDouble).normalised(0.9);
  const auto make = [&](const at::Tensor& alpha) { return power_series_mask(graph, alpha); };
  expect_gradient(Problem4(12), make, at::tensor({1.0, 0.0, 0.0, 0.0}, at::kDouble));
  const auto unexplicit = [&](const at::Tensor& alpha) {
    return power_series_mask(graph, alpha, {.max_sparse_entries = 0});
  };
  expect_gradient(Problem4(12), unexplicit, at::tensor({1.0, 0.0, 0.5, 0.0}, at::kDouble));
}

TEST(SoftmaxAtZeros, DiffusionHasItsGradientAtTimeZero) {
  const Graph graph = Graph::grid({3, 3}).to(at::kDouble);
  const at::Tensor start = at::zeros({2}, at::kDouble);  // one for each head
  const auto diffusion = [&](const at::Tensor& lambda) { return diffusion_mask(graph, lambda, {.tolerance = 1e-14}); };
  expect_gradient(Problem4(9), diffusion, start);
  const Graph path = Graph::path(3).to(at::kDouble);
  expect_gradient(
      Problem4(9),
      [&](const at::Tensor& l) {
        return product_diffusion_mask({path, path}, l);
      },
      start);
  expect_gradient(
      Problem4(8), [](const at::Tensor& l) { return hypercube_diffusion_mask(3, l); }, start);
  const at::Tensor u = normal({9, 2}, 7), v = normal({9, 2}, 8);
  expect_gradient(
      Problem4(9), [&](const at::Tensor& l) { return low_rank_diffusion_mask(u, v, l); }, start);
}

TEST(SoftmaxAtZeros, ARowOfZerosGivesZerosAndAGradient) {
  at::Tensor matrix = normal({5, 5}, 5).abs() + 0.2;
  matrix[2].zero_();
  matrix[3].zero_();
  Problem4 p(5);
  p.q.select(1, 2).zero_();  // logits 0: no maximum that could change
  const PatternPtr full = std::make_shared<SparsePattern>(5, 5, at::arange(6) * 5, at::arange(5, at::kInt).repeat(5));
  const std::vector<std::pair<Route, MakeMask>> ways{{Route::dense, [](const at::Tensor& m) { return dense_mask(m); }},
                                                     {Route::dense,
                                                      [&](const at::Tensor& m) {
                                                        return sparse_mask({full, m.reshape({-1})});
                                                      }},
                                                     {Route::sparse, [&](const at::Tensor& m) {
                                                        return sparse_mask({full, m.reshape({-1})});
                                                      }}};
  const at::Tensor slopes = by_differences(p, ways[0].second, matrix, Route::dense, 1e-10);  // below eps
  std::vector<at::Tensor> found;
  for (const at::Device device : testing::devices()) {
    for (const auto& [route, make] : ways) {
      const at::Tensor theta = matrix.clone().requires_grad_();
      const at::Tensor out = p.out(make(theta), route, device);
      EXPECT_TRUE(close(out.narrow(1, 2, 2), at::zeros({2, 2, 3}, at::kDouble), 0));
      found.push_back(gradients(out, p.cotangent, {theta})[0]);
      EXPECT_TRUE(close(found.back()[2], slopes[2], 1e-5)) << to_string(route);
      EXPECT_TRUE(close(found.back(), found.front(), 1e-10)) << to_string(route);
    }
  }
}

TEST(SoftmaxAtZeros, ALargeLogitThereChangesNothingElse) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    for (const double logit : {20.0, 60.0, 2000.0}) {
      // Row 0 attends to 0 and 1; node 2 has weight 0 there and a logit far above.
      const at::Tensor matrix = at::tensor({1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.3, 0.4, 0.5}, dtype).view({3, 3});
      const at::Tensor q = at::ones({3, 1}, dtype), k = at::tensor({0.1, 0.2, logit}, dtype).view({3, 1});
      const at::Tensor v = normal({3, 2}, 3).to(dtype), g = normal({3, 2}, 4).to(dtype);
      const auto full = std::make_shared<SparsePattern>(3, 3, at::arange(4) * 3, at::arange(3, at::kInt).repeat(3));
      for (const at::Device device : testing::devices()) {
        for (const Route route : {Route::dense, Route::sparse}) {
          const auto there = [&](const at::Tensor& x) { return x.to(device).requires_grad_(); };
          const at::Tensor values = there(matrix.view(-1).clone());
          const std::vector<at::Tensor> inputs{there(q.clone()), there(k.clone()), there(v.clone()), values};
          const auto attended = [&] {
            return softmax_attention(inputs[0], inputs[1], inputs[2], sparse_mask({full->to(device), values}),
                                     {.route = route});
          };
          const at::Tensor out = attended();
          const at::Tensor weights = at::exp(at::tensor({0.1, 0.2}, dtype)) * matrix[0].narrow(0, 0, 2);
          const at::Tensor expected = at::matmul(weights / weights.sum(), v.narrow(0, 0, 2));
          const std::string what = std::string(to_string(route)) + ", logit " + std::to_string(logit);
          EXPECT_TRUE(close(out[0].to(at::kCPU), expected, 1e-5)) << what;
          EXPECT_TRUE(close(out[1].to(at::kCPU), at::zeros({2}, dtype), 0)) << what;
          // Row 0 takes nothing from node 2, whatever its logit: gradients of q there are those of two nodes.
          const auto of_row = gradients(attended()[0], g[0].to(device), inputs);
          const at::Tensor small_q = q[0].to(at::kDouble).clone().requires_grad_();
          const at::Tensor scores = small_q * at::tensor({0.1, 0.2}, dtype).to(at::kDouble);
          const at::Tensor shares = scores.exp() * matrix[0].narrow(0, 0, 2).to(at::kDouble);
          const at::Tensor two = at::matmul(shares / shares.sum(), v.narrow(0, 0, 2).to(at::kDouble));
          const at::Tensor slope = gradients(two, g[0].to(at::kDouble), {small_q})[0];
          EXPECT_TRUE(close(of_row[0][0].to(at::kCPU), slope, 1e-4, 1e-3)) << what;
          EXPECT_TRUE(of_row[1][2].eq(0).all().item<bool>() && of_row[2][2].eq(0).all().item<bool>()) << what;
          for (const at::Tensor& gradient : gradients(out, g.to(device), inputs)) {
            EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << what << gradient;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace topomask
