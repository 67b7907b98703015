#include "ops/call.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/forward_grad.h>

#include "ops/walk_features/op.h"
#include "support/compare.h"
#include "topomask/attention.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

std::vector<std::string>& seen() {
  static std::vector<std::string> names;
  return names;
}

/// The calls of operators of this library through the dispatcher while f runs.
template <class F>
std::vector<std::string> dispatched(const F& f) {
  seen().clear();
  const auto on_start = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    const std::string name = function.name();
    if (name.starts_with("topomask::")) seen().push_back(name.substr(10));
    return nullptr;
  };
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(on_start).scopes({at::RecordScope::FUNCTION}));
  f();
  at::removeCallback(handle);
  return seen();
}

using Names = std::vector<std::string>;

/// What docs/architecture.md says about the path of a call.
TEST(Call, OfAttentionWithAGrfMaskPassesTheDispatcherOncePerOperator) {
  const WalkTable walks = sample_walks(Graph::cycle(64).normalised(), {.walkers = 2, .max_hops = 3, .seed = 1});
  const at::Tensor x = at::rand({64, 8});
  const MaskPtr mask = grf_mask(walks, at::tensor({1.F, 0.5F, 0.25F}));
  const auto attend = [&] { attention(x, x, x, mask, {.route = Route::sparse}); };
  EXPECT_EQ(dispatched([&] { mask->sparse(); }), (Names{"product_pattern", "walk_features", "sparse_gram"}));
  EXPECT_EQ(dispatched(attend), (Names{"sparse_attention_forward"}));  // the values are cached while f stays the same
  const MaskPtr again = grf_mask(walks, at::tensor({1.F, 0.5F, 0.125F}));
  EXPECT_EQ(dispatched([&] { attention(x, x, x, again, {.route = Route::sparse}); }),
            (Names{"walk_features", "sparse_gram", "sparse_attention_forward"}));
}

TEST(Call, PassesAutogradWhereAnArgumentIsDifferentiated) {
  const WalkTable walks = sample_walks(Graph::cycle(8).normalised(), {.walkers = 2, .max_hops = 3, .seed = 1});
  const at::Tensor f = at::tensor({1.F, 0.5F}).requires_grad_();
  EXPECT_EQ(dispatched([&] { EXPECT_TRUE(walk_features(walks, f).requires_grad()); }),
            (Names{"walk_features", "walk_features"}));
  const at::NoGradGuard no_grad;
  EXPECT_EQ(dispatched([&] { EXPECT_FALSE(walk_features(walks, f).requires_grad()); }), (Names{"walk_features"}));
}

/// Forward mode is not implemented: it is refused, and its tangents are not dropped.
TEST(Call, PassesAutogradInForwardMode) {
  const WalkTable walks = sample_walks(Graph::cycle(8).normalised(), {.walkers = 2, .max_hops = 3, .seed = 1});
  const uint64_t level = torch::autograd::ForwardADLevel::get_next_idx();
  {
    const at::Tensor dual = at::_make_dual(at::tensor({1.F, 0.5F}), at::ones({2}), static_cast<int64_t>(level));
    EXPECT_ERROR(walk_features(walks, dual), "jvp is not implemented");
  }
  torch::autograd::ForwardADLevel::release_idx(level);
}

TEST(Call, KnowsWhichArgumentsAreDifferentiated) {
  const at::Tensor plain = at::ones({2}), leaf = at::ones({2}).requires_grad_();
  EXPECT_FALSE(ops::is_differentiated(at::Tensor()));
  EXPECT_FALSE(ops::is_differentiated(plain));
  EXPECT_TRUE(ops::is_differentiated(leaf));
  EXPECT_TRUE(ops::is_differentiated(std::vector<at::Tensor>{plain, leaf}));
  EXPECT_FALSE(ops::is_differentiated(at::TensorList({plain, plain})));
  EXPECT_TRUE(ops::is_differentiated(std::optional<at::Tensor>(leaf)));
  EXPECT_FALSE(ops::is_differentiated(std::optional<at::Tensor>()));
  EXPECT_FALSE(ops::is_differentiated(int64_t{3}));
}

}  // namespace
}  // namespace topomask
