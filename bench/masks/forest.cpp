// Masks over forests: M·X against the dense product and a copy of X, attention against the dense route.

#include "topomask/forest.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <memory>
#include <random>

#include "suite.h"

namespace topomask::bench {
namespace {

constexpr int64_t kColumns = 64;
constexpr int64_t kFewColumns = 4;
constexpr int64_t kLargestDense = 8192;

/// Each node under any earlier one: depth about e·ln N.
at::Tensor random_recursive(int64_t nodes) {
  std::mt19937_64 random(static_cast<uint64_t>(nodes));
  at::Tensor parent = at::full({nodes}, -1, at::kLong);
  for (int64_t v = 1; v < nodes; ++v) {
    parent.mutable_data_ptr<int64_t>()[v] = static_cast<int64_t>(random() % static_cast<uint64_t>(v));
  }
  return parent;
}

/// Trees of 25 nodes, as sentences have.
at::Tensor sentences(int64_t nodes) {
  constexpr int64_t kWords = 25;
  at::Tensor parent = random_recursive(nodes);
  int64_t* p = parent.mutable_data_ptr<int64_t>();
  for (int64_t v = 0; v < nodes; ++v) p[v] = v % kWords == 0 ? -1 : v / kWords * kWords + p[v] % (v % kWords);
  return parent;
}

at::Tensor integer_lengths(int64_t nodes) {
  at::manual_seed(nodes);
  return at::randint(1, 4, {nodes}).to(at::kFloat);
}

MaskPtr exponential_mask(const at::Tensor& parent) {
  const at::Tensor a = at::scalar_tensor(-0.5).requires_grad_(), b = at::zeros({}).requires_grad_();
  return tree_mask(Forest(parent), DistanceFunction::exponential(a, b));
}

MaskPtr table_mask(const at::Tensor& parent) {
  const Forest forest(parent, integer_lengths(parent.size(0)));
  const at::Tensor f = at::exp(-0.1 * at::arange(forest.diameter() + 1, at::kFloat));
  return tree_mask(forest, DistanceFunction::table(f.requires_grad_()));
}

MaskPtr smooth_mask(const at::Tensor& parent) {
  at::manual_seed(parent.size(0));
  const Forest forest(parent, at::rand({parent.size(0)}) + 0.5);
  return tree_mask(forest, DistanceFunction::smooth([](double d) { return 1 / (1 + d * d); }, 1e-5));
}

struct Family {
  std::string name;
  std::function<MaskPtr(int64_t nodes)> make;
  std::vector<int64_t> sizes;
  int64_t columns;
};

std::vector<Family> families() {
  const auto path = [](int64_t nodes) { return at::arange(nodes, at::kLong) - 1; };
  const std::vector<int64_t> by_four{4096, 16384, 65536, 262144, 1048576};
  return {{"forest_exponential",
           [](int64_t n) { return exponential_mask(random_recursive(n)); },
           {8192, 82115, 1048576},
           kColumns},
          {"forest_exponential_path", [=](int64_t n) { return exponential_mask(path(n)); }, {8192, 82115}, kColumns},
          {"forest_exponential_sentences",
           [](int64_t n) { return exponential_mask(sentences(n)); },
           {8192, 82115},
           kColumns},
          {"forest_table", [](int64_t n) { return table_mask(random_recursive(n)); }, by_four, kFewColumns},
          {"forest_table_wide", [](int64_t n) { return table_mask(random_recursive(n)); }, {8192, 82115}, kColumns},
          {"forest_table_path", [=](int64_t n) { return table_mask(path(n)); }, {4096, 16384}, kFewColumns},
          {"forest_smooth", [](int64_t n) { return smooth_mask(random_recursive(n)); }, {8192, 82115}, kColumns}};
}

/// f of several matrices in turn, so that no call finds its input in a cache: a copy over and over of the same would,
/// and a product in a model does not.
Prepared in_turn(int64_t nodes, int64_t columns, const std::function<at::Tensor(const at::Tensor& x)>& f) {
  constexpr int64_t kMatrices = 4;
  at::manual_seed(nodes);
  const at::Tensor all = at::rand({kMatrices, nodes, columns});
  const auto next = std::make_shared<int64_t>(0);
  return {.call = [=]() -> Tensors {
            const at::NoGradGuard none;
            return {f(all[(*next)++ % kMatrices])};
          },
          .counters = {}};
}

/// Output and the gradients of the parameters.
Prepared product_gradients(const MaskPtr& mask, int64_t columns) {
  const at::Tensor x = at::rand({mask->size(), columns}), g = at::randn({mask->size(), columns});
  return {.call = [=]() -> Tensors {
            const at::Tensor out = mask->matmul(x);
            Tensors results;
            if (out.requires_grad()) results = torch::autograd::grad({out}, mask->parameters(), {g});
            results.push_back(out.detach());
            return results;
          },
          .counters = {}};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Family& family : families()) {
    for (const int64_t nodes : family.sizes) {
      const auto add = [&](const std::string& variant, const std::string& pass, bool slow, auto prepare) {
        all.push_back({family.name, nodes, variant, pass, slow, prepare});
      };
      const auto make = family.make;
      const int64_t columns = family.columns;
      const bool large = nodes > 200000;
      add("matmul", "forward", large, [=] {
        return in_turn(nodes, columns, [mask = make(nodes)](const at::Tensor& x) { return mask->matmul(x); });
      });
      add("copy", "forward", large,
          [=] { return in_turn(nodes, columns, [](const at::Tensor& x) { return x.clone(); }); });
      if (family.name != "forest_smooth") {
        add("matmul", "parameter_gradients", large, [=] { return product_gradients(make(nodes), columns); });
      }
      if (nodes <= kLargestDense) {
        add("dense_matmul", "forward", false, [=] {
          const MaskPtr mask = make(nodes);
          return product_case(mask, columns,
                              [dense = mask->dense().detach()](const at::Tensor& x) { return at::matmul(dense, x); });
        });
      }
    }
    if (family.columns != kColumns) continue;
    const std::vector<Case> crossover = crossover_cases(
        family.name, family.make, family.name.ends_with("sentences") ? Route::sparse : Route::operator_);
    all.insert(all.end(), crossover.begin(), crossover.end());
  }
  return all;
}

const MaskFamily registered(cases);

}  // namespace
}  // namespace topomask::bench
