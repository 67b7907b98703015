#include "topomask/toeplitz.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

#include "masks/toeplitz/grid_fft.h"
#include "support/compare.h"
#include "support/golden.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/global_tokens.h"

namespace topomask {
namespace {

using testing::close;
using testing::expect_mask_is;
using testing::gradients;
using testing::normal;
using Dims = std::vector<int64_t>;

/// Coordinates of every node, int64 [N, d], in row-major order.
at::Tensor coordinates(const Dims& dims) {
  std::vector<at::Tensor> axes;
  for (int64_t n : dims) axes.push_back(at::arange(n, at::kLong));
  const auto grids = at::meshgrid(axes, "ij");
  std::vector<at::Tensor> flat;
  for (const at::Tensor& grid : grids) flat.push_back(grid.reshape(-1));
  return at::stack(flat, 1);
}

/// g(i − j) entry by entry; offsets without a head dimension.
at::Tensor gathered(const Dims& dims, const at::Tensor& offsets) {
  const at::Tensor place = coordinates(dims);
  const at::Tensor delta = place.unsqueeze(1) - place.unsqueeze(0);
  at::Tensor index = at::zeros(delta.sizes().slice(0, 2), at::kLong);
  for (size_t s = 0; s < dims.size(); ++s) index = index * (2 * dims[s] - 1) + delta.select(2, s) + dims[s] - 1;
  return offsets.reshape(-1).index_select(0, index.reshape(-1)).view(index.sizes());
}

at::Tensor by_distance(const Dims& dims, const at::Tensor& f) {
  const at::Tensor place = coordinates(dims);
  const at::Tensor distance = (place.unsqueeze(1) - place.unsqueeze(0)).abs().sum(-1);
  return f.index_select(0, distance.reshape(-1)).view(distance.sizes());
}

at::Tensor positive(const Dims& shape, uint64_t seed) {
  return (normal(shape, seed).abs() + 0.1).requires_grad_();
}

Dims offset_shape(const Dims& dims) {
  Dims shape;
  for (int64_t n : dims) shape.push_back(2 * n - 1);
  return shape;
}

Dims of(const at::Tensor& dims) {
  return {dims.const_data_ptr<int64_t>(), dims.const_data_ptr<int64_t>() + dims.numel()};
}

int64_t product(const Dims& dims) {
  return c10::multiply_integers(dims);
}

const std::vector<Dims> kGrids{{1}, {2}, {13}, {63}, {5, 7}, {1, 9}, {9, 1}, {3, 5, 3}, {2, 3, 3, 2}, {3, 1, 1, 5}};

TEST(Toeplitz, MatchesReferenceValues) {
  for (const std::string name : {"toeplitz_13", "toeplitz_5x6", "toeplitz_3x4x5", "toeplitz_2x3x2x4"}) {
    SCOPED_TRACE(name);
    const auto golden = testing::golden(name);
    const Dims dims = of(golden.at("dims"));
    const at::Tensor offsets = golden.at("offsets").clone().requires_grad_();
    const MaskPtr mask = toeplitz_mask(dims, offsets);
    const at::Tensor y = mask->matmul(golden.at("x"));
    EXPECT_TRUE(close(mask->dense(), golden.at("mask"), 1e-10));
    EXPECT_TRUE(close(y, golden.at("y"), 1e-10));
    EXPECT_TRUE(close(mask->matmul_transposed(golden.at("x")), golden.at("y_transposed"), 1e-10));
    EXPECT_TRUE(close(gradients(y, golden.at("gy"), {offsets})[0], golden.at("grad_offsets"), 1e-10));

    const at::Tensor f = golden.at("f_l1").clone().requires_grad_();
    const MaskPtr distance = toeplitz_distance_mask(dims, f);
    const at::Tensor y_distance = distance->matmul(golden.at("x"));
    EXPECT_TRUE(close(distance->dense(), golden.at("mask_l1"), 1e-10));
    EXPECT_TRUE(close(y_distance, golden.at("y_l1"), 1e-10));
    EXPECT_TRUE(close(gradients(y_distance, golden.at("gy"), {f})[0], golden.at("grad_f_l1"), 1e-10));
  }
}

TEST(Toeplitz, ConvolvesByFftAsByItsMatrix) {
  for (const Dims& dims : kGrids) {
    SCOPED_TRACE(at::str(at::IntArrayRef(dims)));
    const int64_t nodes = product(dims);
    for (int64_t heads : {1, 3}) {
      Dims shape = offset_shape(dims);
      shape.insert(shape.begin(), heads);
      const at::Tensor g = normal(shape, 1).requires_grad_();
      std::vector<at::Tensor> matrices;
      for (const at::Tensor& head : g.unbind(0)) matrices.push_back(gathered(dims, head));
      const at::Tensor x = normal({2, heads, nodes, 37}, 2), grad = normal(x.sizes(), 3);
      const at::Tensor y = at::matmul(at::stack(matrices), x);
      EXPECT_TRUE(close(fft_product(g.detach(), x, dims), y, 1e-12));
      EXPECT_TRUE(close(fft_offset_gradient(grad, x, dims), gradients(y, grad, {g})[0], 1e-12));
    }
  }
}

TEST(Toeplitz, IsItsOffsetsOnGridsOfAnyDimension) {
  for (const Dims& dims : std::vector<Dims>{{1}, {13}, {5, 7}, {3, 1, 5}, {2, 3, 3, 2}}) {
    const at::Tensor offsets = positive(offset_shape(dims), 4);
    expect_mask_is(toeplitz_mask(dims, offsets), gathered(dims, offsets));
  }
}

TEST(Toeplitz, HasAMaskPerHead) {
  const Dims dims{3, 5};
  const at::Tensor offsets = positive({2, 5, 9}, 5), f = positive({2, 7}, 6), one = positive({1, 5, 9}, 7);
  expect_mask_is(toeplitz_mask(dims, offsets), at::stack({gathered(dims, offsets[0]), gathered(dims, offsets[1])}));
  expect_mask_is(toeplitz_distance_mask(dims, f), at::stack({by_distance(dims, f[0]), by_distance(dims, f[1])}));
  EXPECT_TRUE(close(toeplitz_mask(dims, one)->dense(), gathered(dims, one[0]), 0)) << "one head is no dimension";
}

TEST(Toeplitz, IsAFunctionOfDistance) {
  for (const Dims& dims : kGrids) {
    int64_t distances = 1;
    for (int64_t n : dims) distances += n - 1;
    const at::Tensor f = positive({distances}, 8);
    EXPECT_TRUE(close(toeplitz_distance_mask(dims, f)->dense(), by_distance(dims, f), 0));
  }
  const at::Tensor f = positive({11}, 8);
  expect_mask_is(toeplitz_distance_mask({5, 7}, f), by_distance({5, 7}, f));
}

TEST(Toeplitz, TakesLogarithms) {
  const Dims dims{3, 4};
  const at::Tensor offsets = normal({5, 7}, 9).requires_grad_(), f = normal({6}, 10).requires_grad_();
  expect_mask_is(toeplitz_mask(dims, offsets, {.logarithmic = true}), gathered(dims, offsets.exp()));
  expect_mask_is(toeplitz_distance_mask(dims, f, {.logarithmic = true}), by_distance(dims, f.exp()));
}

TEST(Toeplitz, SeesNoFutureWhereCausal) {
  for (const Dims& dims : std::vector<Dims>{{13}, {4, 5}, {3, 2, 3}}) {
    const at::Tensor offsets = positive(offset_shape(dims), 11), all = gathered(dims, offsets);
    expect_mask_is(toeplitz_mask(dims, offsets, {.causality = Causality::row_major}), all.tril());
    const at::Tensor first = coordinates(dims).select(1, 0);
    const at::Tensor past = first.unsqueeze(0) <= first.unsqueeze(1);
    expect_mask_is(toeplitz_mask(dims, offsets, {.causality = Causality::first_axis}), all * past);
  }
  const at::Tensor f = normal({13}, 12).requires_grad_();
  expect_mask_is(toeplitz_distance_mask({13}, f, {.logarithmic = true, .causality = Causality::row_major}),
                 by_distance({13}, f.exp()).tril());
}

/// 0·exp(100) would be NaN in float32.
TEST(Toeplitz, HasNoUseForLogarithmsInTheFuture) {
  at::Tensor offsets = at::zeros({7}, at::kFloat);
  offsets[0] = 100;
  offsets.requires_grad_();
  const MaskPtr mask = toeplitz_mask({4}, offsets, {.logarithmic = true, .causality = Causality::row_major});
  const at::Tensor x = at::ones({4, 1}), expected = at::ones({4, 4}).tril();
  EXPECT_TRUE(close(mask->dense(), expected, 1e-6));
  EXPECT_TRUE(close(mask->matmul(x), expected.matmul(x), 1e-6));
  for (const at::Tensor& out : {mask->dense(), mask->matmul(x)}) {
    const at::Tensor gradient = testing::gradients(out.sum(), at::ones({}), {offsets})[0];
    EXPECT_TRUE(close(gradient, at::tensor({0., 0., 0., 4., 3., 2., 1.}).to(at::kFloat), 1e-6));
  }
}

TEST(Toeplitz, CarriesGlobalTokens) {
  const Dims dims{4, 5};
  const at::Tensor offsets = positive({2, 7, 9}, 13);
  const at::Tensor inner = at::stack({gathered(dims, offsets[0]), gathered(dims, offsets[1])});
  const MaskPtr mask = with_global_tokens(toeplitz_mask(dims, offsets), 2);
  EXPECT_TRUE(mask->masked_product_work(8, 8).has_value()) << "attention in tiles, with tokens too";
  expect_mask_is(mask, at::constant_pad_nd(inner, {2, 0, 2, 0}, 1));
}

/// Large enough that M·x goes by FFT and attention in several tiles, cut inside an axis and across axes.
TEST(Toeplitz, AgreesWithItsMatrixWhereItIsLarge) {
  for (const Dims& dims : std::vector<Dims>{{701}, {37, 23}, {3, 211}, {211, 3}, {11, 3, 19}}) {
    SCOPED_TRACE(at::str(at::IntArrayRef(dims)));
    const int64_t nodes = product(dims);
    for (Causality causality : {Causality::none, Causality::row_major, Causality::first_axis}) {
      Dims shape = offset_shape(dims);
      shape.insert(shape.begin(), 2);
      const at::Tensor offsets = positive(shape, 14);
      const MaskPtr mask = toeplitz_mask(dims, offsets, {.causality = causality});
      const at::Tensor q = (normal({2, nodes, 6}, 15).abs() + 0.1).requires_grad_();
      const at::Tensor k = (normal({2, nodes, 6}, 16).abs() + 0.1).requires_grad_();
      const at::Tensor v = normal({2, nodes, 5}, 17).requires_grad_(), cotangent = normal(v.sizes(), 18);
      const auto at_route = [&](Route route) {
        return attention(q, k, v, mask, {.features = FeatureMap::identity(), .route = route});
      };
      const at::Tensor tiled = at_route(Route::operator_), dense = at_route(Route::dense);
      EXPECT_TRUE(mask->masked_product_work(6, 6).has_value());
      EXPECT_TRUE(close(tiled, dense, 1e-11));
      const auto got = gradients(tiled, cotangent, {q, k, v, offsets});
      const auto want = gradients(dense, cotangent, {q, k, v, offsets});
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(close(got[i], want[i], 1e-9)) << "gradient " << i;

      const at::Tensor x = normal({2, nodes, 3}, 19).requires_grad_(), matrix = mask->dense();
      const at::Tensor y = mask->matmul(x), expected = at::matmul(matrix, x), gy = normal(x.sizes(), 20);
      EXPECT_TRUE(close(y, expected, 1e-12));
      EXPECT_TRUE(close(mask->matmul_transposed(x), at::matmul(matrix.mT(), x), 1e-12));
      const auto got_y = gradients(y, gy, {x, offsets}), want_y = gradients(expected, gy, {x, offsets});
      for (size_t i = 0; i < got_y.size(); ++i) EXPECT_TRUE(close(got_y[i], want_y[i], 1e-11)) << "gradient " << i;
    }
  }
}

TEST(Toeplitz, IsTheSameForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  for (const Dims& dims : {Dims{31, 37}, Dims{37, 31}}) {
    const at::Tensor offsets = at::rand({2 * dims[0] - 1, 2 * dims[1] - 1}).requires_grad_();
    const at::Tensor q = at::rand({dims[0] * dims[1], 8}).requires_grad_();
    std::vector<std::vector<at::Tensor>> results;
    for (int t : {1, 2, 7}) {
      at::set_num_threads(t);
      const MaskPtr mask = toeplitz_mask(dims, offsets);
      const at::Tensor out = attention(q, q, q, mask, {.route = Route::operator_}), y = mask->matmul(q);
      results.push_back({out, y, gradients(y, at::ones_like(y), {offsets})[0]});
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      EXPECT_TRUE(at::equal(results[0][i], results[1][i]) && at::equal(results[0][i], results[2][i])) << i;
    }
  }
  at::set_num_threads(threads);
}

TEST(Toeplitz, WorksInInferenceModeAndUnderAutocast) {
  const Dims dims{40, 41};
  const at::Tensor offsets = at::rand({79, 81}), x = at::rand({1640, 64});
  const MaskPtr mask = toeplitz_mask(dims, offsets);
  const at::Tensor y = mask->matmul(x), out = attention(x, x, x, mask, {.route = Route::operator_});
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_TRUE(at::equal(mask->matmul(x), y));
  at::autocast::set_autocast_enabled(at::kCPU, false);
  const c10::InferenceMode inference;
  EXPECT_TRUE(at::equal(mask->matmul(x.clone()), y));
  EXPECT_TRUE(at::equal(attention(x.clone(), x.clone(), x.clone(), mask, {.route = Route::operator_}), out));
}

TEST(Toeplitz, AcceptsNoNodes) {
  for (const Dims& dims : std::vector<Dims>{{0}, {0, 3}, {3, 0}}) {
    Dims shape;
    for (int64_t n : dims) shape.push_back(std::max<int64_t>(0, 2 * n - 1));
    const at::Tensor offsets = at::zeros(shape).requires_grad_(), x = at::zeros({2, 0, 3});
    const MaskPtr mask = toeplitz_mask(dims, offsets);
    const at::Tensor y = mask->matmul(x);
    EXPECT_EQ(y.sizes(), x.sizes());
    EXPECT_EQ(gradients(y, y.detach(), {offsets})[0].sizes(), offsets.sizes());
    EXPECT_EQ(mask->dense().sizes(), (Dims{0, 0}));
    EXPECT_EQ(attention(x, x, x, mask).sizes(), x.sizes());
    EXPECT_EQ(toeplitz_distance_mask(dims, at::zeros({0}))->matmul(x).sizes(), x.sizes());
  }
}

TEST(Toeplitz, AcceptsGlobalTokensAroundNoNodes) {
  const at::Tensor offsets = at::zeros({0, 5}, at::kDouble).requires_grad_();
  const MaskPtr mask = with_global_tokens(toeplitz_mask({0, 3}, offsets), 2);
  const at::Tensor q = normal({2, 3}, 1), k = normal({2, 3}, 2), v = normal({2, 4}, 3).requires_grad_();
  const at::Tensor weights = at::matmul(at::elu(q) + 1, (at::elu(k) + 1).t());
  const at::Tensor expected = at::matmul(weights, v) / weights.sum(-1, true);
  for (const Route route : {Route::automatic, Route::dense, Route::operator_}) {
    const at::Tensor out = attention(q, k, v, mask, {.features = FeatureMap::elu(), .route = route});
    EXPECT_TRUE(close(out, expected, 1e-12)) << to_string(route);
    const at::Tensor ones = at::ones_like(out);
    const auto got = gradients(out, ones, {v, offsets});
    const at::Tensor want = at::matmul((weights / weights.sum(-1, true)).t(), ones);
    EXPECT_TRUE(close(got[0], want, 1e-12)) << to_string(route);
    EXPECT_EQ(got[1].sizes(), offsets.sizes());
  }
}

TEST(Toeplitz, ConvertsBetweenPrecisions) {
  const at::Tensor offsets = at::rand({5, 7});
  const MaskPtr mask = toeplitz_mask({3, 4}, offsets), wide = mask->to(at::kDouble);
  EXPECT_EQ(wide->dtype(), at::kDouble);
  EXPECT_TRUE(close(wide->dense(), mask->dense(), 0));
  const at::Tensor x = at::rand({4096, 3});
  const MaskPtr large = toeplitz_mask({64, 64}, at::rand({127, 127}));
  EXPECT_TRUE(close(large->matmul(x), large->to(at::kDouble)->matmul(x.to(at::kDouble)), 1e-6));
}

TEST(Toeplitz, TransformsAtFastSizes) {
  EXPECT_EQ(fast_fft_size(1), 1);
  EXPECT_EQ(fast_fft_size(63), 64);
  EXPECT_EQ(fast_fft_size(127), 128);
  EXPECT_EQ(fast_fft_size(79), 80);
  for (int64_t n = 1; n < 3000; ++n) {
    const int64_t size = fast_fft_size(n);
    EXPECT_GE(size, n);
    EXPECT_LT(size, 2 * n + 1);
    int64_t rest = size;
    for (int64_t prime : {2, 3, 5, 7}) {
      while (rest % prime == 0) rest /= prime;
    }
    EXPECT_EQ(rest, 1) << size;
  }
}

TEST(Toeplitz, LetsSmallGridsGoFused) {
  const at::Tensor x = at::rand({256, 64});
  const Plan small = explain(x, x, x, toeplitz_mask({16, 16}, at::rand({31, 31})));
  EXPECT_EQ(small.route, Route::fused) << small;
  const at::Tensor y = at::rand({4096, 64});
  const Plan large = explain(y, y, y, toeplitz_mask({64, 64}, at::rand({127, 127})));
  EXPECT_EQ(large.route, Route::operator_) << large;
}

TEST(Toeplitz, SaysWhatIsWrong) {
  const at::Tensor good = at::ones({5, 7});
  EXPECT_ERROR(toeplitz_mask({}, good), "toeplitz_mask: dims must name at least one axis, got none");
  EXPECT_ERROR(toeplitz_mask({3, -4}, good), "toeplitz_mask: dims must be >= 0, got [3, -4]");
  EXPECT_ERROR(toeplitz_mask({1 << 20, 1 << 20}, good), "toeplitz_mask: dims must have at most 2^31-1 nodes");
  EXPECT_ERROR(toeplitz_mask({3, 5}, good),
               "toeplitz_mask: offsets must be Float or Double of shape [5, 9], or [H, …] of it, for a grid of [3, 5], "
               "got Float[5, 7]");
  EXPECT_ERROR(toeplitz_mask({3, 4}, good.to(at::kLong)), "offsets must be Float or Double of shape [5, 7]");
  EXPECT_ERROR(toeplitz_mask({3, 4}, at::ones({0, 5, 7})), "got Float[0, 5, 7]");
  EXPECT_ERROR(toeplitz_mask({3, 4}, {}), "got undefined");
  EXPECT_ERROR(toeplitz_mask({3, 4}, good / 0), "toeplitz_mask: offsets must be finite, got inf at [0, 0]");
  EXPECT_ERROR(toeplitz_distance_mask({3, 4}, at::ones({5})),
               "toeplitz_distance_mask: f must be Float or Double of shape [6], or [H, …] of it, for a grid of [3, 4], "
               "got Float[5]");
  EXPECT_ERROR(toeplitz_mask({3, 4}, good)->matmul(at::ones({11, 2})), "x must be [..., N = 12, C]");
}

}  // namespace
}  // namespace topomask
