#include "support/mask_contract.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <optional>
#include <thread>
#include <utility>

#include "support/compare.h"
#include "support/devices.h"
#include "support/parameter_changes.h"
#include "topomask/attention.h"

namespace topomask::testing {
namespace {

/// The shapes a mask must accept before [N, C].
std::vector<std::vector<int64_t>> leading_shapes(const Mask& mask) {
  if (mask.heads() > 1) return {{mask.heads()}, {2, mask.heads()}, {2, 3, mask.heads()}};
  return {{}, {2}, {2, 3}};
}

std::vector<int64_t> joined(std::vector<int64_t> leading, int64_t nodes, int64_t width) {
  leading.push_back(nodes);
  leading.push_back(width);
  return leading;
}

/// A non-contiguous tensor of that shape that requires a gradient.
at::Tensor input(const std::vector<int64_t>& shape, uint64_t seed) {
  std::vector<int64_t> swapped = shape;
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  return normal(swapped, seed).requires_grad_();
}

std::vector<at::Tensor> learnable(const Mask& mask) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : mask.parameters()) {
    if (parameter.requires_grad()) result.push_back(parameter);
  }
  return result;
}

/// A mask where it is tried: parameters, inputs and references stay on the CPU, and gradients come back there.
struct Placed {
  MaskPtr mask;
  std::vector<at::Tensor> parameters;  ///< the learnable ones, on the CPU
  at::Device device;
  at::Tensor there(const at::Tensor& x) const { return x.to(device); }
  static at::Tensor back(const at::Tensor& y) { return y.to(at::kCPU); }
};

void expect_same(const at::Tensor& actual, const at::Tensor& expected, std::vector<at::Tensor> inputs,
                 const std::vector<at::Tensor>& parameters, double tolerance, const std::string& what) {
  EXPECT_TRUE(close(actual, expected, tolerance)) << what;
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  if (inputs.empty()) return;
  const at::Tensor cotangent = normal(expected.sizes(), 99);
  const auto got = gradients(actual, cotangent, inputs);
  const auto want =
      torch::autograd::grad({expected}, inputs, {cotangent}, /*retain_graph=*/true, /*create_graph=*/false,
                            /*allow_unused=*/true);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor target = want[i].defined() ? want[i] : at::zeros_like(inputs[i]);
    EXPECT_TRUE(close(got[i], target, tolerance, 1e-3)) << what << ", gradient " << i;
  }
}

void expect_products(const Placed& p, const at::Tensor& reference, double tolerance) {
  for (const auto& leading : leading_shapes(*p.mask)) {
    const at::Tensor x = input(joined(leading, p.mask->size(), 3), 1).mT();
    expect_same(p.back(p.mask->matmul(p.there(x))), at::matmul(reference, x), {x}, p.parameters, tolerance, "matmul");
    expect_same(p.back(p.mask->matmul_transposed(p.there(x))), at::matmul(reference.mT(), x), {x}, p.parameters,
                tolerance, "matmul_transposed");
  }
}

/// A mask is shared: what it makes on first use, several threads may ask for at once.
void expect_shared(const Placed& p, const at::Tensor& reference, double tolerance) {
  const at::Tensor x = p.there(normal(joined(leading_shapes(*p.mask)[0], p.mask->size(), 3), 2));
  const at::Tensor expected = at::matmul(reference.detach(), p.back(x));
  constexpr size_t kThreads = 3;
  std::array<at::Tensor, kThreads> products, matrices;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const at::NoGradGuard no_grad;
      p.mask->counts();
      const auto sparse = p.mask->sparse();
      matrices[i] = sparse ? sparse->dense() : p.mask->dense();
      p.mask->factors();
      products[i] = p.mask->matmul(x);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kThreads; ++i) {
    EXPECT_TRUE(close(p.back(products[i]), expected, tolerance)) << "matmul on thread " << i;
    EXPECT_TRUE(close(p.back(matrices[i]).to(at::kDouble), reference.detach(), tolerance)) << "matrix on thread " << i;
  }
}

void expect_forms(const Placed& p, const at::Tensor& reference, double tolerance) {
  expect_same(p.back(p.mask->dense()).to(at::kDouble), reference, {}, p.parameters, tolerance, "dense");
  if (const auto matrix = p.mask->sparse()) {
    expect_same(p.back(matrix->dense()), reference, {}, p.parameters, tolerance, "sparse");
  }
  if (const auto factors = p.mask->factors()) {
    const auto dense = [&](const Factor& f) { return p.back(f.sparse ? f.sparse->dense() : f.dense).to(at::kDouble); };
    expect_same(at::matmul(dense(factors->left), dense(factors->right).mT()), reference, {}, p.parameters, tolerance,
                "factors");
  }
}

at::Tensor clamped(const at::Tensor& denominator, double eps) {
  const at::Tensor sign = at::where(denominator < 0, -1.0, 1.0);
  return at::where(denominator.abs() < eps, sign * eps, denominator);
}

/// On the CPU alone: a GPU has no kernels of this route for the float64 of these tests.
bool offers_fused(const Mask& mask, at::Device device) {
  return device.is_cpu() && mask.tiles();
}

std::vector<Route> offered(const Mask& mask, at::Device device) {
  std::vector<Route> routes{Route::automatic, Route::dense, Route::operator_, Route::strips};
  if (mask.sparse()) routes.push_back(Route::sparse);
  if (mask.factors()) routes.push_back(Route::features);
  if (offers_fused(mask, device)) routes.push_back(Route::fused);
  return routes;
}

void expect_attention(const Placed& p, const at::Tensor& reference, double tolerance) {
  const AttentionOptions base{.features = FeatureMap::elu()};
  for (const auto& leading : leading_shapes(*p.mask)) {
    const at::Tensor q = input(joined(leading, p.mask->size(), 11), 2).mT(),
                     k = input(joined(leading, p.mask->size(), 11), 3).mT();
    const at::Tensor v = input(joined(leading, p.mask->size(), 4), 4).mT();
    const at::Tensor weights = at::matmul(at::elu(q) + 1, (at::elu(k) + 1).mT()) * reference;
    const at::Tensor expected = at::matmul(weights, v) / clamped(weights.sum(-1, true), base.eps);
    for (Route route : offered(*p.mask, p.device)) {
      AttentionOptions options = base;
      options.route = route;
      const at::Tensor out = attention(p.there(q), p.there(k), p.there(v), p.mask, options);
      expect_same(p.back(out), expected, {q, k, v}, p.parameters, tolerance,
                  std::string("attention, route ") + to_string(route));
    }
  }
}

void expect_softmax(const Placed& p, const at::Tensor& reference, double tolerance) {
  const std::vector<int64_t> leading = leading_shapes(*p.mask)[1];
  const at::Tensor q = input(joined(leading, p.mask->size(), 5), 5).mT(),
                   k = input(joined(leading, p.mask->size(), 5), 6).mT();
  const at::Tensor v = input(joined(leading, p.mask->size(), 4), 7).mT();
  const auto attended = [&](const SoftmaxOptions& options) {
    return p.back(softmax_attention(p.there(q), p.there(k), p.there(v), p.mask, options));
  };
  const at::Tensor scores = at::matmul(q, k.mT()) / std::sqrt(5.0);
  for (Route route : {Route::automatic, Route::dense, Route::strips, Route::fused}) {
    if (route == Route::fused && !offers_fused(*p.mask, p.device)) continue;
    expect_same(attended({.mask = SoftmaxMask::additive, .route = route}),
                at::matmul(at::softmax(scores + reference, -1), v), {q, k, v}, p.parameters, tolerance,
                std::string("softmax, additive, route ") + to_string(route));
  }
  const at::Tensor weights = scores.exp() * reference;
  const at::Tensor expected = at::matmul(weights, v) / clamped(weights.sum(-1, true), 1e-6);
  for (Route route : {Route::automatic, Route::dense, Route::strips, Route::sparse, Route::fused}) {
    if (route == Route::sparse && !p.mask->sparse()) continue;
    if (route == Route::fused && !offers_fused(*p.mask, p.device)) continue;
    expect_same(attended({.route = route}), expected, {q, k, v}, p.parameters, tolerance,
                std::string("softmax, multiplicative, route ") + to_string(route));
  }
}

/// Everything a mask computes, by name.
class Computed {
 public:
  explicit Computed(const MaskPtr& mask) : mask_(mask), parameters_(learnable(*mask)) {
    const auto sparse = mask->sparse();
    if (sparse) {
      add("offsets", sparse->pattern->offsets());
      add("columns", sparse->pattern->columns());
      add("values", sparse->values, {});
    }
    if (const auto factors = mask->factors(); factors && !factors->left.sparse) {
      add("left factor", factors->left.dense, {});
      add("right factor", factors->right.dense, {});
    }
    const at::Tensor x = signal(7, 1);
    add("matmul", mask->matmul(x), {x});
    add("matmul_transposed", mask->matmul_transposed(x), {x});
    const at::Tensor q = signal(6, 2), k = signal(6, 3), v = signal(5, 4);
    for (const Route route : offered(*mask, at::kCPU)) {
      // The planner weighs the number of threads.
      const bool all_pairs = route == Route::dense || route == Route::fused;
      if (route == Route::automatic || (all_pairs && !moderate()) || (route == Route::strips && !small())) continue;
      const auto out = attention(q, k, v, mask, {.features = FeatureMap::elu(), .route = route});
      add(std::string("attention, route ") + to_string(route), out, {q, k, v});
    }
    if (sparse) add("softmax, sparse", softmax_attention(q, k, v, mask, {.route = Route::sparse}), {q, k, v});
    if (!moderate()) return;
    add("dense", mask->dense(), {});
    for (const Route route : {Route::dense, Route::strips, Route::fused}) {
      if (route == Route::fused && !offers_fused(*mask, at::kCPU)) continue;
      if (route == Route::strips && !small()) continue;
      for (const SoftmaxMask mode : {SoftmaxMask::multiplicative, SoftmaxMask::additive}) {
        const std::string name = mode == SoftmaxMask::additive ? "softmax, additive, " : "softmax, multiplicative, ";
        add(name + to_string(route), softmax_attention(q, k, v, mask, {.mask = mode, .route = route}), {q, k, v});
      }
    }
  }

  const std::vector<std::pair<std::string, at::Tensor>>& all() const { return all_; }

 private:
  bool moderate() const { return mask_->size() <= 1200; }
  bool small() const { return mask_->size() <= 200; }  // strips make every row by a product

  at::Tensor signal(int64_t width, uint64_t seed) const {
    std::vector<int64_t> shape{4};
    if (mask_->heads() > 1) shape.push_back(mask_->heads());
    return normal(joined(shape, mask_->size(), width), seed).to(mask_->dtype().value_or(at::kFloat)).requires_grad_();
  }

  void add(const std::string& name, const at::Tensor& tensor) { all_.emplace_back(name, tensor.detach()); }

  void add(const std::string& name, const at::Tensor& tensor, std::vector<at::Tensor> inputs) {
    add(name, tensor);
    inputs.insert(inputs.end(), parameters_.begin(), parameters_.end());
    if (inputs.empty() || !tensor.requires_grad()) return;
    const at::Tensor cotangent = normal(tensor.sizes(), 9).to(tensor.scalar_type());
    const auto grads = torch::autograd::grad({tensor}, inputs, {cotangent}, /*retain_graph=*/true,
                                             /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].defined()) add(name + ", gradient " + std::to_string(i), grads[i]);
    }
  }

  MaskPtr mask_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::pair<std::string, at::Tensor>> all_;
};

}  // namespace

at::Tensor normal(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::dtype(at::kDouble));
}

void expect_mask_is(const MaskPtr& mask, const at::Tensor& reference, double tolerance) {
  SCOPED_TRACE("mask " + mask->name() + ", N " + std::to_string(mask->size()) + ", heads " +
               std::to_string(mask->heads()));
  for (const at::Device device : devices()) {
    SCOPED_TRACE("on " + device.str());
    const Placed placed{device.is_cpu() ? mask : mask->to(device), learnable(*mask), device};
    // A mask whose rows can be empty or signed keeps its denominators away from zero by eps; the references above do so
    // too.
    expect_shared(placed, reference, tolerance);
    expect_products(placed, reference, tolerance);
    expect_forms(placed, reference, tolerance);
    expect_attention(placed, reference, tolerance);
    expect_softmax(placed, reference, tolerance);
    expect_follows_parameters(*placed.mask);
  }
  expect_same_for_any_threads([&] { return mask; });
}

void expect_same_for_any_threads(const std::function<MaskPtr()>& make) {
  const int before = at::get_num_threads();
  std::optional<Computed> expected;
#ifdef __SANITIZE_ADDRESS__
  const std::vector<int> counts{1, 2};  // for memory errors one other number is enough, and several times faster
#else
  const std::vector<int> counts{1, 2, 7};
#endif
  for (const int threads : counts) {
    at::set_num_threads(threads);
    const Computed computed(make());
    if (!expected) expected = computed;
    for (size_t i = 0; i < computed.all().size(); ++i) {
      const auto& [name, tensor] = computed.all()[i];
      EXPECT_FALSE(tensor.is_floating_point() && tensor.isnan().any().item<bool>()) << name << " has NaN";
      EXPECT_TRUE(tensor.equal(expected->all()[i].second)) << name << ", " << threads << " threads instead of 1";
    }
  }
  at::set_num_threads(before);
}

}  // namespace topomask::testing
