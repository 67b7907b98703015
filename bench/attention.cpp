// Suite `attention`: one call of masked attention, by every route of the library and by what torch alone offers.
// Square grid, W = 0.9/√(d_i d_j), one head, m = d = 64, float32. Masks: the exact series of three hops, and graph
// random features with 4 walkers that halt with probability 0.5 and with 20 that halt with 0.1, at most 10 hops.

#include "topomask/attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <memory>
#include <string>

#include "harness.h"
#include "topomask/grf.h"
#include "topomask/masks.h"
#include "topomask/power_series.h"
#include "topomask/walks.h"
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

/// A mask with fixed coefficients, and the same with a gradient to them.
struct Masks {
  at::Tensor coefficients;
  MaskPtr fixed, learned;
};

Masks make_masks(const std::string& name, const Graph& graph) {
  const auto both = [](int64_t terms, const auto& make) {
    const at::Tensor f = at::pow(0.5, at::arange(terms, at::kFloat)).set_requires_grad(true);
    return Masks{f, make(f.detach().clone()), make(f)};
  };
  if (name == "series3") return both(4, [&](const at::Tensor& alpha) { return power_series_mask(graph, alpha); });
  const bool few = name == "grf_n4";
  const WalkTable walks =
      sample_walks(graph, {.walkers = few ? 4 : 20, .halting_probability = few ? 0.5 : 0.1, .max_hops = 10, .seed = 7});
  return both(11, [&](const at::Tensor& f) { return grf_mask(walks, f); });
}

/// The inputs for one mask and N, shared by its cases.
struct Problem {
  Problem(const std::string& mask_name, int64_t side) : name(mask_name), nodes(side * side) {
    at::manual_seed(nodes);
    for (at::Tensor* x : {&q, &k, &v}) *x = at::rand({nodes, kWidth}) + 0.1;
    cotangent = at::randn({nodes, kWidth});
    const Masks masks = make_masks(name, Graph::grid({side, side}).normalised(0.9));
    coefficients = masks.coefficients;
    mask = masks.fixed;
    learned = masks.learned;
  }

  const CsrMask& csr(at::ScalarType indices) {
    std::unique_ptr<CsrMask>& kept = csr_[indices == at::kInt];
    if (!kept) kept = std::make_unique<CsrMask>(sparse(), indices);
    return *kept;
  }
  /// What Algorithm 1 multiplies with: {Φ, Φᵀ}, or {M} for a mask that is not made of features.
  const Tensors& factors() {
    if (factors_.empty() && name == "series3") factors_ = {csr(at::kInt).matrix};
    if (factors_.empty()) {
      at::NoGradGuard no_grad;
      const CsrMask phi(mask->factors().value().left.sparse.value(), at::kInt);
      factors_ = {phi.matrix, phi.transposed(phi.matrix.values())};
    }
    return factors_;
  }
  SparseMatrix sparse() const {
    at::NoGradGuard no_grad;
    return mask->sparse().value();
  }

  std::string name;
  int64_t nodes;
  at::Tensor q, k, v, cotangent, coefficients;
  MaskPtr mask;                             ///< fixed
  MaskPtr learned;                          ///< the same, with a gradient to the coefficients
  std::map<std::string, Tensors> expected;  ///< by pass, from the sparse route

 private:
  std::unique_ptr<CsrMask> csr_[2];
  Tensors factors_;
};

/// The problem of the current case; cases come by mask and size, so one is kept.
std::shared_ptr<Problem> problem_of(const std::string& mask, int64_t side) {
  static std::shared_ptr<Problem> current;
  if (!current || current->nodes != side * side || current->name != mask) {
    current.reset();
    current = std::make_shared<Problem>(mask, side);
  }
  return current;
}

using Forward = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;

Forward by_route(const std::shared_ptr<Problem>& problem, Route route, bool learned) {
  return
      [mask = learned ? problem->learned : problem->mask,
       options = AttentionOptions{.features = FeatureMap::identity(), .route = route}](
          const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) { return attention(q, k, v, mask, options); };
}

/// Inference: no gradient is recorded.
Tensors forward_pass(const Problem& problem, const Forward& forward) {
  at::NoGradGuard no_grad;
  return {forward(problem.q, problem.k, problem.v)};
}

/// A training step's share: output and gradients to q, k and v, and to the coefficients where asked.
Tensors forward_backward_pass(const Problem& problem, const Forward& forward, bool learned) {
  Tensors inputs;
  for (const at::Tensor& x : {problem.q, problem.k, problem.v}) inputs.push_back(x.detach().set_requires_grad(true));
  if (learned) inputs.push_back(problem.coefficients);
  const at::Tensor out = forward(inputs[0], inputs[1], inputs[2]);
  Tensors results = {out.detach()};
  for (at::Tensor& grad : torch::autograd::grad({out}, inputs, {problem.cotangent})) results.push_back(std::move(grad));
  return results;
}

Tensors run_pass(const Problem& problem, const std::string& pass, const Forward& forward, bool learned) {
  return pass == "forward" ? forward_pass(problem, forward) : forward_backward_pass(problem, forward, learned);
}

void check(const std::string& variant, const Tensors& actual, const Tensors& expected) {
  constexpr const char* kNames[] = {"output", "gradient of q", "gradient of k", "gradient of v",
                                    "gradient of the coefficients"};
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
    return run_pass(*problem, pass, softmax, /*learned=*/false);
  }
  if (variant == "torch_linear") {
    const Forward unmasked = [none = none_mask(problem->nodes)](const auto& q, const auto& k, const auto& v) {
      return attention(q, k, v, none, {.features = FeatureMap::identity()});
    };
    return run_pass(*problem, pass, unmasked, /*learned=*/false);
  }
  Tensors& kept = problem->expected[pass];
  if (kept.empty()) kept = run_pass(*problem, pass, by_route(problem, Route::sparse, true), true);
  return kept;
}

/// One pass over q, k, v and the output, into memory that is there already: what no attention can do without.
__attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4"))) void stream_range(
    const float* q, const float* k, const float* v, float* out, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) out[i] = q[i] + k[i] + v[i];
}

Prepared stream(const std::shared_ptr<Problem>& problem) {
  const at::Tensor out = at::empty_like(problem->v);
  const auto call = [problem, out]() -> Tensors {
    at::parallel_for(0, out.numel(), 1 << 15, [&](int64_t begin, int64_t end) {
      stream_range(problem->q.const_data_ptr<float>(), problem->k.const_data_ptr<float>(),
                   problem->v.const_data_ptr<float>(), out.mutable_data_ptr<float>(), begin, end);
    });
    return {out};
  };
  return {.call = call, .counters = {}};
}

Prepared prepare(const std::string& mask, int64_t side, const std::string& variant, const std::string& pass) {
  const std::shared_ptr<Problem> problem = problem_of(mask, side);
  if (variant == "stream") return stream(problem);
  static const std::map<std::string, Route> kRoutes = {
      {"dense", Route::dense},        {"sparse", Route::sparse},     {"features", Route::features},
      {"operator", Route::operator_}, {"planned", Route::automatic}, {"sparse_learned", Route::sparse}};
  const bool learned = variant == "sparse_learned";
  Forward forward;
  if (kRoutes.contains(variant)) {
    forward = by_route(problem, kRoutes.at(variant), learned);
  } else if (variant.starts_with("torch_sddmm")) {
    const bool tuned = variant == "torch_sddmm_tuned";
    const auto baseline = tuned ? tuned_sddmm_attention : sddmm_attention;
    forward = [baseline, &csr = problem->csr(tuned ? at::kInt : at::kLong)](
                  const auto& q, const auto& k, const auto& v) { return baseline(q, k, v, csr); };
  } else if (variant.starts_with("torch_algorithm1")) {
    const int64_t slice_bytes = variant == "torch_algorithm1" ? kWhole : kCached;
    forward = [slice_bytes, &factors = problem->factors()](const auto& q, const auto& k, const auto& v) {
      return algorithm1(q, k, v, factors, slice_bytes);
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
    call = [=] { return run_pass(*problem, pass, forward, learned); };
  }
  check(variant, call(), expected_of(problem, variant, pass));
  return {.call = call, .counters = {}};
}

const std::vector<std::string> kOurs = {"dense", "sparse", "sparse_learned", "features", "operator", "planned"};
const std::vector<std::string> kTorch = {
    "stream",     "torch_sddmm", "torch_sddmm_tuned", "torch_algorithm1", "torch_algorithm1_sliced",
    "torch_sdpa", "torch_linear"};

/// Whether a case is worth its time and memory.
bool is_run(const std::string& mask, int64_t nodes, const std::string& variant, const std::string& pass) {
  const bool forward = pass == "forward", algorithm1 = variant.starts_with("torch_algorithm1");
  const bool quadratic = variant == "dense" || variant == "torch_sdpa";
  // Autograd keeps the N·m·(d+1) products of Algorithm 1: more than 4 GiB at the largest size.
  if ((quadratic || (algorithm1 && !forward)) && nodes > kLargestDense) return false;
  if (variant == "stream") return forward;
  // Autograd through torch's CSR products takes most of a second at N = 16 384; the tuned form has its backward by
  // hand. A learned mask differs from a fixed one in training only.
  if (variant == (forward ? "sparse_learned" : "torch_sddmm")) return false;
  if (mask == "series3") return true;
  // Sampled masks: what is new about them. The operator route is the two products of the features route, and signed
  // or dense baselines say nothing more than with the series.
  if (variant == "operator" || quadratic || variant == "torch_algorithm1_sliced") return false;
  return nodes <= kLargestDense || variant.starts_with("sparse") || (nodes <= 262144 && variant == "planned");
}

std::vector<Case> cases() {
  std::vector<std::string> variants = kOurs;
  variants.insert(variants.end(), kTorch.begin(), kTorch.end());
  std::vector<Case> all;
  const auto add = [&](const std::string& mask, int64_t side) {
    for (const std::string pass : {"forward", "forward_backward"}) {
      for (const std::string& variant : variants) {
        const int64_t nodes = side * side;
        if (!is_run(mask, nodes, variant, pass)) continue;
        const bool outer = variant == "operator" || variant == "features" || variant.starts_with("torch_algorithm1");
        all.push_back({.mask = mask,
                       .nodes = nodes,
                       .variant = variant,
                       .pass = pass,
                       .slow = nodes >= 16384 && (outer || variant == "dense" || variant == "torch_sdpa"),
                       .prepare = [=] { return prepare(mask, side, variant, pass); }});
      }
    }
  };
  for (const int64_t side : {16, 32, 64, 128, 256, 512}) add("series3", side);
  for (const int64_t side : {64, 128, 256, 512, 1024}) add("grf_n4", side);
  for (const int64_t side : {64, 128, 256}) add("grf_n20", side);
  return all;
}

}  // namespace
}  // namespace topomask::bench

int main(int argc, char** argv) {
  return topomask::bench::run(argc, argv, {.suite = "attention"}, topomask::bench::cases());
}
