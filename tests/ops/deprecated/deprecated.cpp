#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cuda/on_cuda.h"
#include "support/compare.h"
#include "support/sparse_reference.h"
#include "topomask/walks.h"

// The overloads `separate`, with the tensors of a pattern as arguments of their own: each gives what the operator gives
// for a list of them, and says that it will be removed.

namespace topomask {
namespace {

using at::Tensor;
using c10::IValue;
using Stack = std::vector<IValue>;
using testing::random_tensor;

std::vector<Tensor> called(const std::string& op, const char* overload, Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(("topomask::" + op).c_str(), overload).callBoxed(&stack);
  std::vector<Tensor> results;
  for (const IValue& value : stack) {
    if (value.isTensorList()) return value.toTensorVector();
    results.push_back(value.toTensor());
  }
  return results;
}

/// The arguments of an operator, in order. A list is a pattern: one argument now, as many as it has tensors before.
struct OldCase {
  std::string op;
  std::vector<IValue> arguments;
  std::vector<IValue> behind;  ///< arguments that come last, after the tiles, which only the old form has

  std::vector<Tensor> now() const { return called(op, "", arguments); }
  std::vector<Tensor> before() const {
    Stack separate;
    for (const IValue& value : arguments) {
      if (!value.isTensorList()) {
        separate.push_back(value);
        continue;
      }
      for (const Tensor& tensor : value.toTensorVector()) separate.emplace_back(tensor);
    }
    separate.insert(separate.end(), behind.begin(), behind.end());
    return called(op, "separate", separate);
  }
};

/// Every warning that is given while it lives.
class Warnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { texts_.push_back(warning.msg()); }

  /// How many say that the old form of `op` will be removed, with the list that takes its place.
  int64_t about(const std::string& op) const {
    return std::count_if(texts_.begin(), texts_.end(), [&](const std::string& text) {
      return text.starts_with("topomask::" + op +
                              ": the tensors of a pattern are one argument now, a list [offsets, ") &&
             text.ends_with("; the form with separate arguments will be removed");
    });
  }

 private:
  std::vector<std::string> texts_;
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

/// Two heads on a pattern [7, 7], in float64.
std::vector<OldCase> differentiable_cases() {
  const PatternPtr square = testing::random_pattern(7, 7, 0.4, 1), left = testing::random_pattern(7, 5, 0.5, 2),
                   right = testing::random_pattern(7, 5, 0.5, 3);
  const auto leaf = [](at::IntArrayRef shape, uint64_t seed) { return random_tensor(shape, seed).requires_grad_(); };
  const IValue q = leaf({2, 2, 7, 3}, 4), k = leaf({2, 2, 7, 3}, 5), v = leaf({2, 2, 7, 4}, 6),
               values = leaf({2, square->entries()}, 7), pattern = square->tensors();
  const std::vector<IValue> no_tiles(2);
  return {{"spmm", {values, v, pattern}, {}},
          {"spmm_transposed", {values, v, pattern}, {}},
          {"sparse_attention", {q, k, v, values, pattern, 1e-6}, no_tiles},
          {"sparse_softmax_attention", {q, k, v, values, pattern, 0.5, 1e-6}, no_tiles},
          {"factored_product",
           {q, k, v, leaf({2, left->entries()}, 8), left->tensors(), leaf({1, right->entries()}, 9), right->tensors()},
           {}}};
}

OldCase sddmm_case() {
  const std::vector<Tensor> pattern = testing::random_pattern(7, 7, 0.4, 1)->tensors();
  return {"sddmm",
          {random_tensor({2, 2, 7, 3}, 1), random_tensor({2, 2, 7, 3}, 2), std::vector<Tensor>{pattern[0], pattern[1]},
           int64_t{2}},
          {}};
}

/// Walks on a cycle; for `walk_visits` those of two of its nodes.
OldCase walk_case(const std::string& op, const at::Device& device) {
  const Graph graph = Graph::cycle(9).to(device);
  const Tensor halt_below = at::full({4}, 1 << 30, at::kInt).to(device), scale = at::full({4}, 4. / 3).to(device);
  OldCase result{op,
                 {std::vector<Tensor>{graph.offsets(), graph.columns()}, graph.weights(), IValue(), IValue(),
                  halt_below, scale, int64_t{3}, int64_t{0}, int64_t{7}, false, int64_t{0}},
                 {}};
  if (op == "walk_visits") result.arguments.insert(result.arguments.end(), {int64_t{2}, int64_t{2}});
  return result;
}

OldCase sample_walks_case() {
  const Graph graph = Graph::cycle(9);
  return {
      "sample_walks",
      {std::vector<Tensor>{graph.offsets(), graph.columns()}, graph.weights(), int64_t{3}, 0.3, int64_t{6}, IValue(),
       IValue(), int64_t{0}, "independent", int64_t{0}, "uniform", IValue(), true, int64_t{7}, int64_t{0}},
      {}};
}

void expect_equal(const std::vector<Tensor>& before, const std::vector<Tensor>& now) {
  ASSERT_EQ(before.size(), now.size());
  for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(before[i].equal(now[i])) << "tensor " << i;
}

/// The old form gives a warning, and what the operator gives.
void expect_same(const OldCase& old) {
  SCOPED_TRACE(old.op);
  const c10::WarningUtils::WarnAlways always;
  Warnings warnings;
  expect_equal(old.before(), old.now());
  EXPECT_EQ(warnings.about(old.op), 1);
}

TEST(Deprecated, FormsGiveWhatTheOperatorsGiveWithTheirGradients) {
  const c10::WarningUtils::WarnAlways always;
  for (const OldCase& old : differentiable_cases()) {
    SCOPED_TRACE(old.op);
    Warnings warnings;
    std::vector<Tensor> inputs;
    for (const IValue& value : old.arguments) {
      if (value.isTensor()) inputs.push_back(value.toTensor());
    }
    const std::vector<Tensor> before = old.before(), now = old.now();
    expect_equal(before, now);
    const Tensor slope = random_tensor(now[0].sizes(), 10);
    expect_equal(testing::gradients(before[0], slope, inputs), testing::gradients(now[0], slope, inputs));
    EXPECT_EQ(warnings.about(old.op), 1);
  }
}

TEST(Deprecated, FormsWithoutGradientsGiveWhatTheOperatorsGive) {
  expect_same(sddmm_case());
  expect_same(sample_walks_case());
}

using DeprecatedWalks = testing::OnCuda;

TEST_F(DeprecatedWalks, AreThoseOfTheOperators) {
  expect_same(walk_case("walk_table", cuda_));
  expect_same(walk_case("walk_visits", cuda_));
}

/// What every form says in its first two calls of this process. Other tests ask for a warning in every call, which is
/// not counted.
std::vector<std::pair<std::string, int64_t>> said_in_two_calls() {
  std::vector<OldCase> all = differentiable_cases();
  all.insert(all.end(), {sddmm_case(), sample_walks_case(), walk_case("walk_table", at::kCPU),
                         walk_case("walk_visits", at::kCPU)});
  std::vector<std::pair<std::string, int64_t>> result;
  for (const OldCase& old : all) {
    Warnings warnings;
    for (int call = 0; call < 2; ++call) {
      try {
        old.before();
      } catch (const c10::Error&) {  // walk_table and walk_visits run on a GPU alone, but warn before that
        EXPECT_TRUE(old.op.starts_with("walk_")) << old.op;
      }
    }
    result.emplace_back(old.op, warnings.about(old.op));
  }
  return result;
}

TEST(Deprecated, FormsSaySoOnceForEachOperator) {
  static const auto said = said_in_two_calls();  // once, however often this test runs
  EXPECT_EQ(said.size(), 9U);
  for (const auto& [op, times] : said) EXPECT_EQ(times, 1) << op;
}

}  // namespace
}  // namespace topomask
