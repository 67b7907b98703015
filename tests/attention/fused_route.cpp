// The fused route over several tiles each way, against the dense one.

#include <ATen/Parallel.h>

#include "support/compare.h"
#include "support/mask_contract.h"
#include "support/peak_memory.h"
#include "topomask/attention.h"
#include "topomask/diffusion.h"
#include "topomask/encodings.h"
#include "topomask/global_tokens.h"
#include "topomask/masks.h"
#include "topomask/toeplitz.h"

namespace topomask {
namespace {

using testing::close;
using testing::gradients;
using testing::normal;

struct Named {
  std::string name;
  MaskPtr mask;
};

at::Tensor learned(at::Tensor x) {
  return x.requires_grad_();
}

/// A mask of each kind of tiles, with more nodes than a tile has rows or columns, some around global tokens.
std::vector<Named> every_kind(int64_t heads) {
  const auto positive = [&](at::IntArrayRef shape, uint64_t seed) {
    std::vector<int64_t> all{heads};
    all.insert(all.end(), shape.begin(), shape.end());
    return learned(normal(all, seed).abs() + 0.1);
  };
  const auto positive_of = [](at::IntArrayRef shape, uint64_t seed) {
    return learned(normal(shape, seed).abs() * 0.1);
  };
  const MaskPtr line = toeplitz_mask({300}, positive({599}, 1)), grid = toeplitz_mask({18, 19}, positive({35, 37}, 2));
  const at::Tensor distances = at::randint(-1, 9, {290, 290}, at::kInt);
  return {
      {"none", none_mask(270)},
      {"causal", causal_mask(300)},
      {"line", line},
      {"grid", grid},
      {"boxes", toeplitz_mask({5, 7, 9}, positive({9, 13, 17}, 3))},
      {"matrix", dense_mask(positive({280, 280}, 4))},
      {"distances", shortest_path_mask(distances, positive({7}, 5))},
      {"hypercube", hypercube_diffusion_mask(8, learned(at::full({heads}, 0.2, at::kDouble)))},
      {"factors and identity", low_rank_diffusion_mask(positive_of({310, 4}, 11), positive_of({310, 4}, 12),
                                                       learned(normal({heads}, 13).abs()))},
      {"factors, identity and tokens",
       with_global_tokens(low_rank_diffusion_mask(positive_of({280, 3}, 14), positive_of({280, 3}, 15),
                                                  learned(normal({heads}, 16).abs())),
                          3)},
      {"factors", free_features_mask(positive({310, 5}, 6), positive({310, 5}, 7))},
      {"causal and tokens", with_global_tokens(causal_mask(280), 3)},
      {"grid and tokens", with_global_tokens(grid, 2)},
      {"matrix and tokens", with_global_tokens(dense_mask(positive({260, 260}, 8)), 130)},
      {"factors and tokens", with_global_tokens(free_features_mask(positive({270, 3}, 9), positive({270, 3}, 10)), 1)}};
}

struct Tensors3 {
  explicit Tensors3(int64_t heads, int64_t nodes)
      : q(learned(normal({2, nodes, heads, 6}, 1))),
        k(learned(normal({2, nodes, heads, 6}, 2))),
        v(learned(normal({2, nodes, heads, 5}, 3))),
        cotangent(normal({2, heads, nodes, 5}, 4)) {}

  /// The output and the gradients, for inputs whose rows do not follow one another.
  template <class F>
  std::vector<at::Tensor> all(const MaskPtr& mask, const F& attend) const {
    const at::Tensor out = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2));
    std::vector<at::Tensor> inputs{q, k, v};
    for (const at::Tensor& p : mask->parameters()) inputs.push_back(p);
    std::vector<at::Tensor> result = gradients(out, cotangent, inputs);
    result.push_back(out);
    return result;
  }

  at::Tensor q, k, v, cotangent;
};

void expect_equal_routes(int64_t heads) {
  for (const auto& [name, mask] : every_kind(heads)) {
    const Tensors3 t(2, mask->size());
    const auto compare = [&, &name = name, &mask = mask](const char* what, const auto& attend) {
      const auto expected = t.all(mask, [&](const auto&... x) { return attend(Route::dense, x...); });
      const auto actual = t.all(mask, [&](const auto&... x) { return attend(Route::fused, x...); });
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(close(actual[i], expected[i], 1e-9, 1e-3)) << name << ", " << what << ", tensor " << i;
      }
    };
    compare("kernel", [&mask = mask](Route route, const auto& q, const auto& k, const auto& v) {
      return attention(q, k, v, mask, {.features = FeatureMap::elu(), .route = route});
    });
    for (const SoftmaxMask way : {SoftmaxMask::additive, SoftmaxMask::multiplicative}) {
      compare(way == SoftmaxMask::additive ? "additive" : "multiplicative",
              [&mask = mask, way](Route route, const auto& q, const auto& k, const auto& v) {
                return softmax_attention(q, k, v, mask, {.mask = way, .route = route});
              });
    }
  }
}

TEST(Fused, IsTheDenseRoute) {
  expect_equal_routes(1);
}

TEST(Fused, IsTheDenseRouteWithAMaskPerHead) {
  expect_equal_routes(2);
}

TEST(Fused, KeepsSumsInFloat32ForBFloat16) {
  const MaskPtr mask = toeplitz_mask({20, 20}, at::rand({39, 39}) + 0.1);
  const auto at_random = [](uint64_t seed) { return normal({1, 400, 16}, seed).to(at::kBFloat16); };
  const at::Tensor q = at_random(1), k = at_random(2), v = at_random(3);
  const at::Tensor out = attention(q, k, v, mask, {.features = FeatureMap::elu(), .route = Route::fused});
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  const at::Tensor expected =
      attention(wide(FeatureMap::elu()(q)), wide(FeatureMap::elu()(k)), wide(v), mask->to(at::kDouble),
                {.features = FeatureMap::identity(), .route = Route::dense});
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(close(out, expected, 1e-2));
}

TEST(Fused, DoesNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  for (const auto& [name, mask] : every_kind(1)) {
    const Tensors3 t(2, mask->size());
    const auto run = [&, &mask = mask](int count) {
      at::set_num_threads(count);
      return t.all(mask, [&](const auto& q, const auto& k, const auto& v) {
        return attention(q, k, v, mask, {.features = FeatureMap::elu(), .route = Route::fused});
      });
    };
    const auto one = run(1);
    for (int count : {2, 7}) {
      const auto other = run(count);
      for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_TRUE(at::equal(one[i], other[i])) << name << ", tensor " << i << ", threads " << count;
      }
    }
  }
  at::set_num_threads(threads);
}

TEST(Fused, IsWhatThePlannerTakesAndHoldsNoMatrix) {
  constexpr int64_t kNodes = 6144;  // N×N in float32: 144 MiB
  const at::Tensor x = at::rand({kNodes, 16});
  const MaskPtr mask = dense_mask(at::rand({kNodes, kNodes}));
  at::Tensor out;
  const int64_t grown = testing::peak_growth([&] { out = softmax_attention(x, x, x, mask); });
  EXPECT_LT(grown, 40 << 20);
  EXPECT_EQ(explain(x, x, x, mask).route, Route::fused);
  EXPECT_LT(testing::peak_growth([&] { out = attention(x, x, x, mask); }), 40 << 20);
  const MaskPtr offsets = toeplitz_mask({kNodes}, at::rand({2 * kNodes - 1}).requires_grad_());
  EXPECT_LT(testing::peak_growth(
                [&] { softmax_attention(x, x, x, offsets, {.mask = SoftmaxMask::additive}).sum().backward(); }),
            80 << 20);
}

TEST(Fused, IsRefusedWhereTheMaskHasNoTiles) {
  const at::Tensor x = at::rand({4, 3});
  EXPECT_ERROR(attention(x, x, x, neighbours_mask(Graph::path(4)), {.route = Route::fused}),
               "attention: route must be one the mask offers, got fused for mask");
}

}  // namespace
}  // namespace topomask
