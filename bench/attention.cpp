// Suite `attention`: one call of masked attention, by every route of the library and by what torch alone offers.
// Square grid, W = 0.9/√(d_i d_j), exact series of three hops, one head, m = d = 64, float32.

#include "topomask/attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <memory>
#include <string>

#include "harness.h"
#include "topomask/masks.h"
#include "topomask/power_series.h"
#include "torch_baselines.h"

namespace topomask::bench {
namespace {

constexpr int64_t kWidth = 64;
constexpr double kTolerance = 1e-3;
/// Without a mask a gradient is a small difference of sums over all nodes: float32 leaves three digits of it at 262
/// 144.
constexpr double kUnmaskedTolerance = 1e-2;
/// Beyond, an N×N matrix of float32 takes more than 1 GiB.
constexpr int64_t kLargestDense = 16384;

/// The inputs for one N, shared by its cases.
struct Problem {
  explicit Problem(int64_t side) : nodes(side * side) {
    at::manual_seed(nodes);
    for (at::Tensor* x : {&q, &k, &v}) *x = at::rand({nodes, kWidth}) + 0.1;
    cotangent = at::randn({nodes, kWidth});
    alpha = at::pow(0.5, at::arange(4, at::kFloat)).set_requires_grad(true);
    const Graph graph = Graph::grid({side, side}).normalised(0.9);
    mask = power_series_mask(graph, alpha.detach().clone());
    learned = power_series_mask(graph, alpha);
  }

  const CsrMask& csr(at::ScalarType indices) {
    std::unique_ptr<CsrMask>& kept = csr_[indices == at::kInt];
    if (!kept) kept = std::make_unique<CsrMask>(sparse(), indices);
    return *kept;
  }
  SparseMatrix sparse() const {
    at::NoGradGuard no_grad;
    return mask->sparse().value();
  }

  int64_t nodes;
  at::Tensor q, k, v, cotangent, alpha;
  MaskPtr mask;                             ///< fixed
  MaskPtr learned;                          ///< the same, with a gradient to alpha
  std::map<std::string, Tensors> expected;  ///< by pass, from the sparse route

 private:
  std::unique_ptr<CsrMask> csr_[2];
};

/// The problem of the case at hand; cases come by size, so one is kept.
std::shared_ptr<Problem> problem_of(int64_t side) {
  static std::shared_ptr<Problem> current;
  if (!current || current->nodes != side * side) {
    current.reset();
    current = std::make_shared<Problem>(side);
  }
  return current;
}

using Forward = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

Forward by_route(const std::shared_ptr<Problem>& problem, Route route, bool with_alpha) {
  return
      [mask = with_alpha ? problem->learned : problem->mask,
       options = AttentionOptions{.features = FeatureMap::identity(), .route = route}](
          const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) { return attention(q, k, v, mask, options); };
}

/// Inference: no gradient is recorded.
Tensors forward_pass(const Problem& problem, const Forward& forward) {
  at::NoGradGuard no_grad;
  return {forward(problem.q, problem.k, problem.v)};
}

/// A training step's share: output and gradients to q, k and v, and to α where asked.
Tensors forward_backward_pass(const Problem& problem, const Forward& forward, bool with_alpha) {
  Tensors inputs;
  for (const at::Tensor& x : {problem.q, problem.k, problem.v}) inputs.push_back(x.detach().set_requires_grad(true));
  if (with_alpha) inputs.push_back(problem.alpha);
  const at::Tensor out = forward(inputs[0], inputs[1], inputs[2]);
  Tensors results = {out.detach()};
  for (at::Tensor& grad : torch::autograd::grad({out}, inputs, {problem.cotangent})) results.push_back(std::move(grad));
  return results;
}

Tensors run_pass(const Problem& problem, const std::string& pass, const Forward& forward, bool with_alpha) {
  return pass == "forward" ? forward_pass(problem, forward) : forward_backward_pass(problem, forward, with_alpha);
}

void check(const std::string& variant, const Tensors& actual, const Tensors& expected) {
  constexpr const char* kNames[] = {"output", "gradient of q", "gradient of k", "gradient of v", "gradient of alpha"};
  for (size_t i = 0; i < actual.size(); ++i)
    check_close(variant + ": " + kNames[i], actual[i], expected.at(i),
                variant == "torch_linear" ? kUnmaskedTolerance : kTolerance);
}

/// What a variant must equal: the sparse route, save for the two baselines that compute another function.
Tensors expected_of(const std::shared_ptr<Problem>& problem, const std::string& variant, const std::string& pass) {
  if (variant == "torch_sdpa") {
    SoftmaxOptions options;
    options.route = Route::sparse;
    const Forward softmax = [&](const auto& q, const auto& k, const auto& v) {
      return softmax_attention(q, k, v, problem->mask, options);
    };
    return run_pass(*problem, pass, softmax, /*with_alpha=*/false);
  }
  if (variant == "torch_linear") {
    const Forward unmasked = [none = none_mask(problem->nodes)](const auto& q, const auto& k, const auto& v) {
      return attention(q, k, v, none, {.features = FeatureMap::identity()});
    };
    return run_pass(*problem, pass, unmasked, /*with_alpha=*/false);
  }
  Tensors& kept = problem->expected[pass];
  if (kept.empty()) kept = run_pass(*problem, pass, by_route(problem, Route::sparse, true), true);
  return kept;
}

Prepared prepare(int64_t side, const std::string& variant, const std::string& pass) {
  const std::shared_ptr<Problem> problem = problem_of(side);
  static const std::map<std::string, Route> kRoutes = {
      {"dense", Route::dense},        {"sparse", Route::sparse},     {"features", Route::features},
      {"operator", Route::operator_}, {"planned", Route::automatic}, {"sparse_learned", Route::sparse}};
  const bool with_alpha = variant == "sparse_learned";
  Forward forward;
  if (kRoutes.contains(variant)) {
    forward = by_route(problem, kRoutes.at(variant), with_alpha);
  } else if (variant.starts_with("torch_sddmm")) {
    const bool tuned = variant == "torch_sddmm_tuned";
    const auto baseline = tuned ? tuned_sddmm_attention : sddmm_attention;
    forward = [baseline, &csr = problem->csr(tuned ? at::kInt : at::kLong)](
                  const auto& q, const auto& k, const auto& v) { return baseline(q, k, v, csr); };
  } else if (variant.starts_with("torch_algorithm1")) {
    const int64_t slice_bytes = variant == "torch_algorithm1" ? kWhole : kCached;
    forward = [slice_bytes, &csr = problem->csr(at::kInt)](const auto& q, const auto& k, const auto& v) {
      return algorithm1(q, k, v, csr, slice_bytes);
    };
  } else if (variant == "torch_sdpa") {
    forward = [mask = dense_log_mask(problem->sparse())](const auto& q, const auto& k, const auto& v) {
      return sdpa(q, k, v, mask);
    };
  } else {
    forward = linear_attention;
  }
  std::function<Tensors()> call;
  if (variant == "torch_sddmm_tuned" && pass != "forward") {
    call = [problem, &csr = problem->csr(at::kInt)] {
      at::NoGradGuard no_grad;
      return sddmm_gradients(problem->q, problem->k, problem->v, problem->cotangent, csr);
    };
  } else {
    call = [=] { return run_pass(*problem, pass, forward, with_alpha); };
  }
  check(variant, call(), expected_of(problem, variant, pass));
  return {.call = call, .counters = {}};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t side : {16, 32, 64, 128, 256, 512}) {
    const int64_t nodes = side * side;
    for (const std::string pass : {"forward", "forward_backward"}) {
      for (const std::string variant :
           {"dense", "sparse", "sparse_learned", "features", "operator", "planned", "torch_sddmm", "torch_sddmm_tuned",
            "torch_algorithm1", "torch_algorithm1_sliced", "torch_sdpa", "torch_linear"}) {
        const bool quadratic = variant == "dense" || variant == "torch_sdpa";
        const bool outer = variant == "operator" || variant == "features" || variant.starts_with("torch_algorithm1");
        // Autograd keeps the N·m·(d+1) products of Algorithm 1: more than 4 GiB at the largest size.
        const bool heavy = quadratic || (variant.starts_with("torch_algorithm1") && pass != "forward");
        if (heavy && nodes > kLargestDense) continue;
        // Autograd through torch's CSR products takes most of a second at N = 16 384; the tuned form has its backward
        // by hand. A learned mask differs from a fixed one in training only.
        if (variant == (pass == "forward" ? "sparse_learned" : "torch_sddmm")) continue;
        all.push_back({.mask = "series3",
                       .nodes = nodes,
                       .variant = variant,
                       .pass = pass,
                       .slow = nodes >= 16384 && (quadratic || outer),
                       .prepare = [=] { return prepare(side, variant, pass); }});
      }
    }
  }
  return all;
}

}  // namespace
}  // namespace topomask::bench

int main(int argc, char** argv) {
  return topomask::bench::run(argc, argv, {.suite = "attention"}, topomask::bench::cases());
}
