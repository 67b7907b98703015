#include "suite.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace topomask::bench {
namespace {

std::vector<std::function<std::vector<Case>()>>& families() {
  static std::vector<std::function<std::vector<Case>()>> all;
  return all;
}

constexpr int64_t kLargestChecked = 4096;
constexpr double kTolerance = 1e-3;

}  // namespace

MaskFamily::MaskFamily(std::function<std::vector<Case>()> cases) {
  families().push_back(std::move(cases));
}

Prepared attention_case(const MaskPtr& mask, Route route, const std::string& pass) {
  const int64_t nodes = mask->size();
  at::manual_seed(nodes);
  std::vector<at::Tensor> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(at::rand({nodes, kHeadWidth}) + 0.1);
  const at::Tensor cotangent = at::randn({nodes, kHeadWidth});
  const bool backward = pass != "forward";
  if (backward) {
    for (at::Tensor& input : inputs) input.requires_grad_();
  }
  const auto run = [=](Route by) -> Tensors {
    const at::AutoGradMode mode(backward);
    const at::Tensor out =
        attention(inputs[0], inputs[1], inputs[2], mask, {.features = FeatureMap::identity(), .route = by});
    if (!backward) return {out};
    Tensors wanted = inputs;
    for (const at::Tensor& parameter : mask->parameters()) {
      if (parameter.requires_grad()) wanted.push_back(parameter);
    }
    return torch::autograd::grad({out}, wanted, {cotangent});
  };
  if (route != Route::dense && nodes <= kLargestChecked) {
    const Tensors actual = run(route), expected = run(Route::dense);
    for (size_t i = 0; i < actual.size(); ++i) {
      check_close("result " + std::to_string(i), actual[i], expected[i], kTolerance);
    }
  }
  return {.call = [=] { return run(route); }, .counters = {}};
}

std::vector<Case> crossover_cases(const std::string& family, const std::function<MaskPtr(int64_t nodes)>& make,
                                  Route route) {
  std::vector<Case> all;
  for (int64_t nodes = 64; nodes <= kLargestChecked; nodes *= 4) {
    for (const Route by : {route, Route::dense}) {
      all.push_back({family, nodes, std::string(to_string(by)) + "_attention", "forward", nodes >= 4096,
                     [=] { return attention_case(make(nodes), by, "forward"); }});
    }
  }
  return all;
}

Prepared product_case(const MaskPtr& mask, int64_t columns,
                      const std::function<at::Tensor(const at::Tensor& x)>& product) {
  at::manual_seed(mask->size());
  const at::Tensor x = at::rand({mask->size(), columns});
  const at::NoGradGuard no_grad;
  check_close("product", product(x), mask->matmul(x), kTolerance);
  const auto call = [=]() -> Tensors {
    const at::NoGradGuard none;
    return {product(x)};
  };
  return {.call = call, .counters = {}};
}

}  // namespace topomask::bench

int main(int argc, char** argv) {
  using namespace topomask::bench;
  std::vector<Case> cases;
  for (const auto& family : families()) {
    const std::vector<Case> own = family();
    cases.insert(cases.end(), own.begin(), own.end());
  }
  return run(argc, argv, {.suite = "masks"}, std::move(cases));
}
