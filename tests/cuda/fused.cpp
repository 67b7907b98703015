// The fused route in every dtype against the dense one in double, over several tiles each way.

#include <ATen/Context.h>

#include "cuda/on_cuda.h"
#include "ops/fused_attention/op.h"
#include "support/compare.h"
#include "support/mask_contract.h"
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
using FusedCuda = testing::OnCuda;

std::vector<MaskPtr> every_kind_on_cuda(int64_t heads) {
  const auto positive = [&](at::IntArrayRef shape, uint64_t seed) {
    std::vector<int64_t> all{heads};
    all.insert(all.end(), shape.begin(), shape.end());
    return (normal(all, seed).abs() + 0.1).to(at::kFloat).requires_grad_();
  };
  const MaskPtr grid = toeplitz_mask({18, 19}, positive({35, 37}, 2));
  return {none_mask(270),
          causal_mask(300),
          toeplitz_mask({300}, positive({599}, 1)),
          grid,
          toeplitz_mask({36, 36}, positive({71, 71}, 11)),
          toeplitz_mask({10, 32}, positive({19, 63}, 12)),  // ends with a stage that holds codes of an earlier step
          toeplitz_mask({3, 40, 41}, positive({5, 79, 81}, 3)),  // tiles across planes see long windows
          dense_mask(positive({280, 280}, 4)),
          shortest_path_mask(at::randint(-1, 90, {290, 290}, at::kInt), positive({80}, 5)),
          hypercube_diffusion_mask(8, at::full({heads}, 0.2F).requires_grad_()),
          free_features_mask(positive({310, 70}, 6), positive({310, 70}, 7)),
          with_global_tokens(free_features_mask(positive({270, 3}, 9), positive({270, 3}, 10)), 1),
          with_global_tokens(causal_mask(280), 3),
          with_global_tokens(grid, 2),
          with_global_tokens(dense_mask(positive({260, 260}, 8)), 5)};
}

/// The entries of a matrix that are not zero.
SparseMatrix sparse_matrix_of(const at::Tensor& matrix) {
  const at::Tensor places = matrix.nonzero(), counts = (matrix != 0).sum(1);
  auto pattern =
      std::make_shared<SparsePattern>(matrix.size(0), matrix.size(1), at::constant_pad_nd(counts.cumsum(0), {1, 0}),
                                      places.select(1, 1).to(at::kInt).contiguous());
  return {pattern, matrix.masked_select(matrix != 0)};
}

struct Rows {
  at::ScalarType dtype;
  int64_t features, value_dim;
  double tolerance;
};

/// Outputs and all gradients of kernel attention and both softmaxes, or of the additive one alone, for inputs whose
/// rows do not follow one another.
void expect_dense_route(const MaskPtr& mask, const Rows& rows, at::Device gpu, bool additive_only = false) {
  const MaskPtr there = mask->to(gpu), wide = mask->to(at::TensorOptions(gpu).dtype(at::kDouble));
  const auto at_random = [&](int64_t width, uint64_t seed) {
    return normal({2, mask->size(), 2, width}, seed).to(gpu, rows.dtype);
  };
  const at::Tensor q = at_random(rows.features, 1).abs(), k = at_random(rows.features, 2).abs();
  const at::Tensor v = at_random(rows.value_dim, 3), cotangent = at_random(rows.value_dim, 4).transpose(1, 2);
  const auto compare = [&](const char* what, const auto& attend) {
    const auto all = [&](const MaskPtr& used, Route route, at::ScalarType type) {
      std::vector<at::Tensor> inputs;
      for (const at::Tensor& x : {q, k, v}) inputs.push_back(x.to(type).requires_grad_());
      const at::Tensor out =
          attend(inputs[0].transpose(1, 2), inputs[1].transpose(1, 2), inputs[2].transpose(1, 2), used, route);
      for (const at::Tensor& p : mask->parameters()) inputs.push_back(p);
      auto result = gradients(out, cotangent.to(type), inputs);
      result.push_back(out);
      return result;
    };
    const auto actual = all(there, Route::fused, rows.dtype), expected = all(wide, Route::dense, at::kDouble);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(close(actual[i], expected[i], rows.tolerance, 1e-3))
          << mask->name() << ", " << what << ", " << rows.dtype << ", width " << rows.features << ", tensor " << i;
    }
  };
  const auto softmax = [&](SoftmaxMask way) {
    compare(way == SoftmaxMask::additive ? "additive" : "multiplicative",
            [way](const auto& a, const auto& b, const auto& c, const MaskPtr& used, Route route) {
              return softmax_attention(a, b, c, used, {.mask = way, .route = route});
            });
  };
  softmax(SoftmaxMask::additive);
  if (additive_only) return;
  softmax(SoftmaxMask::multiplicative);
  compare("kernel", [](const auto& a, const auto& b, const auto& c, const MaskPtr& used, Route route) {
    return attention(a, b, c, used, {.features = FeatureMap::identity(), .route = route});
  });
}

TEST_F(FusedCuda, IsTheDenseRoute) {
  for (const int64_t heads : {1, 2}) {
    for (const MaskPtr& mask : every_kind_on_cuda(heads)) {
      for (const int64_t width : {24, 100}) expect_dense_route(mask, {at::kBFloat16, width, 40, 0.02}, cuda_);
    }
  }
}

/// Factors that fit next to q and k into rows of 128 values become columns of them, some in rows of 64. These masks
/// have entries of both signs, with which the denominators of the other two kinds cancel.
TEST_F(FusedCuda, TakesFactorsAsColumns) {
  for (const int64_t heads : {1, 2}) {
    for (const auto& [width, rank] : {std::pair{24, 13}, {64, 21}, {100, 5}, {100, 9}}) {
      const auto side = [&, rank = rank](uint64_t seed) {
        return normal({heads, 310, rank}, seed).to(at::kFloat).requires_grad_();
      };
      expect_dense_route(free_features_mask(side(6), side(7)), {at::kBFloat16, width, 64, 0.02}, cuda_, true);
    }
  }
}

/// The last tile of rows is not full: what stands for its missing rows must not become infinite.
TEST_F(FusedCuda, AddsValuesWhoseExponentialsAreInfinite) {
  const MaskPtr mask = toeplitz_mask({300}, at::full({599}, 100.0F));
  for (const int64_t width : {24, 100}) expect_dense_route(mask, {at::kBFloat16, width, 40, 0.02}, cuda_, true);
  expect_dense_route(mask, {at::kFloat, 24, 40, 1e-4}, cuda_, true);
}

TEST_F(FusedCuda, NamesAQueryOfTooFewDimensions) {
  const at::Tensor x = at::ones({8}, at::device(cuda_));
  EXPECT_ERROR(ops::fused_attention::forward(x, x, x, {.kind = TileKind::ones}, {}),
               "fused_attention: q must be [B, H, N, m]");
}

TEST_F(FusedCuda, ReadsNoValuesWhereEveryTokenIsGlobal) {
  const auto rows = [&](uint64_t seed) { return normal({1, 2, 70, 16}, seed).abs().to(cuda_, at::kBFloat16); };
  const at::Tensor q = rows(1), k = rows(2), v = rows(3), values = at::ones({1, 5}, at::device(cuda_));
  const MaskTiles offsets{.kind = TileKind::offsets,
                          .values = values,
                          .index = at::empty({0}, at::device(cuda_).dtype(at::kInt)),
                          .shift = 2,
                          .globals = 70};
  for (const Weighting weighting : {Weighting::kernel, Weighting::additive, Weighting::multiplicative}) {
    const ops::fused_attention::Options options{.weighting = weighting};
    const auto actual = ops::fused_attention::forward(q, k, v, offsets, options);
    const auto expected = ops::fused_attention::forward(q, k, v, {.kind = TileKind::ones}, options);
    EXPECT_TRUE(std::get<0>(actual).equal(std::get<0>(expected)));
    const auto back = ops::fused_attention::backward(v, q, k, v, offsets, options, actual, true);
    EXPECT_TRUE(std::get<3>(back).equal(at::zeros_like(values)));
  }
}

/// In the forward pass: the backward pass, which cannot make the gradient, would notice too late.
TEST_F(FusedCuda, RefusesToLearnOffsetsOfTooManyNodes) {
  constexpr int64_t kNodes = 262145;
  const at::Tensor x = at::ones({kNodes, 8}, at::device(cuda_));
  const MaskPtr mask = toeplitz_mask({kNodes}, at::ones({2 * kNodes - 1}, at::device(cuda_)).requires_grad_());
  const std::string text =
      ": q must have at most 262144 nodes where the offsets of a Toeplitz mask are learned by the route fused on cuda";
  EXPECT_ERROR(attention(x, x, x, mask, {.route = Route::fused}), "attention" + text);
  EXPECT_ERROR(softmax_attention(x, x, x, mask, {.route = Route::fused}), "softmax_attention" + text);
  EXPECT_NE(explain(x, x, x, mask).route, Route::fused);
}

TEST_F(FusedCuda, KeepsFactorsBeyondBFloat16) {
  const auto side = [&](uint64_t seed) { return (normal({1, 400, 20}, seed) * 5).to(at::kFloat).to(cuda_); };
  const MaskPtr mask = free_features_mask(side(6), side(7));  // exponents of hundreds
  const auto rows = [&](uint64_t seed) { return normal({2, 400, 64}, seed).to(cuda_, at::kBFloat16); };
  const at::Tensor q = rows(1), k = rows(2), v = rows(3);
  const SoftmaxOptions fused{.mask = SoftmaxMask::additive, .route = Route::fused};
  const SoftmaxOptions dense{.mask = SoftmaxMask::additive, .route = Route::dense};
  const at::Tensor expected = softmax_attention(q.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble),
                                                mask->to(at::TensorOptions(cuda_).dtype(at::kDouble)), dense);
  EXPECT_TRUE(close(softmax_attention(q, k, v, mask, fused), expected, 0.02, 1e-3));
}

TEST_F(FusedCuda, IsTheDenseRouteInFloat32) {
  for (const int64_t heads : {1, 2}) {
    for (const MaskPtr& mask : every_kind_on_cuda(heads)) expect_dense_route(mask, {at::kFloat, 24, 70, 2e-5}, cuda_);
  }
}

TEST_F(FusedCuda, IsTheDenseRouteInFloat16) {
  for (const MaskPtr& mask : every_kind_on_cuda(2)) expect_dense_route(mask, {at::kHalf, 64, 64, 5e-3}, cuda_);
}

TEST_F(FusedCuda, IsTheDenseRouteInWideRows) {
  for (const MaskPtr& mask : every_kind_on_cuda(2)) {
    expect_dense_route(mask, {at::kBFloat16, 256, 130, 0.02}, cuda_);
    expect_dense_route(mask, {at::kFloat, 201, 256, 1e-4}, cuda_);  // exponents of ten, whose error is theirs times e^x
  }
}

/// Row 3 of M nearly cancels, and its query is zero, so that D is 2⁻¹⁷: its output is beyond float16, and nothing
/// depends on it. Its gradient is zero, and those of the other rows are what they are.
TEST_F(FusedCuda, AnOutputBeyondFloat16SpoilsNoGradient) {
  constexpr int64_t kNodes = 40;
  const at::Tensor left = at::zeros({kNodes, 2}), right = at::zeros({kNodes, 2});
  left.select(1, 0).fill_(1);
  right.select(1, 0).fill_(1);
  left[3] = at::tensor({0.F, 1.F});
  right[0][1].fill_(1);
  right[1][1].fill_(-1 + 0x1p-17F);
  const at::Tensor matrix = at::matmul(left, right.t()).to(at::kDouble);
  at::Tensor v = testing::normal({1, 1, kNodes, 8}, 3);
  v[0][0][0].fill_(1);
  v[0][0][1].fill_(0);
  at::Tensor cotangent = testing::normal({1, 1, kNodes, 8}, 4);
  cotangent[0][0][3].fill_(0);
  at::Tensor q = testing::normal({1, 1, kNodes, 8}, 1) * 0.01;
  q[0][0][3].fill_(0);
  const at::Tensor k = testing::normal({1, 1, kNodes, 8}, 2) * 0.01;
  const auto all = [&](const MaskPtr& mask, Route route, at::ScalarType type, at::Device device) {
    std::vector<at::Tensor> inputs;
    for (const at::Tensor& x : {q, k, v}) inputs.push_back(x.to(at::kHalf).to(device, type).requires_grad_());
    const at::Tensor out =
        softmax_attention(inputs[0], inputs[1], inputs[2], mask, {.mask = SoftmaxMask::multiplicative, .route = route});
    EXPECT_EQ(out[0][0][3].isinf().all().item<bool>(), type == at::kHalf);
    return gradients(out, cotangent.to(at::kHalf).to(device, type), inputs);
  };
  const auto expected = all(dense_mask(matrix), Route::dense, at::kDouble, at::kCPU);
  const SparseMatrix entries = sparse_matrix_of(matrix.to(at::kFloat));
  for (const auto& [mask, route] :
       {std::pair(free_features_mask(left, right), Route::fused),
        std::pair(dense_mask(matrix.to(at::kFloat)), Route::fused), std::pair(sparse_mask(entries), Route::sparse)}) {
    const auto actual = all(mask->to(cuda_), route, at::kHalf, cuda_);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(close(actual[i].cpu(), expected[i], 5e-3, 1e-3)) << mask->name() << ", tensor " << i;
    }
  }
}

/// Where torch allows TF32 for products of matrices, the route takes it, and not otherwise.
TEST_F(FusedCuda, RoundsToTF32WhereTorchDoes) {
  const MaskPtr mask = toeplitz_mask({300}, normal({1, 599}, 1).abs().to(at::kFloat))->to(cuda_);
  const auto at_random = [&](uint64_t seed) { return normal({1, 1, 300, 64}, seed).abs().to(cuda_, at::kFloat); };
  const at::Tensor q = at_random(1), k = at_random(2), v = at_random(3);
  const auto error = [&](bool allowed) {
    const bool before = at::globalContext().allowTF32CuBLAS();
    at::globalContext().setAllowTF32CuBLAS(allowed);
    const auto run = [&](at::ScalarType type, Route route) {
      const MaskPtr used = mask->to(at::TensorOptions(cuda_).dtype(type));
      return attention(q.to(type), k.to(type), v.to(type), used, {.features = FeatureMap::identity(), .route = route});
    };
    const at::Tensor actual = run(at::kFloat, Route::fused), expected = run(at::kDouble, Route::dense);
    at::globalContext().setAllowTF32CuBLAS(before);
    return ((actual - expected).abs().max() / expected.abs().max()).item<double>();
  };
  EXPECT_LT(error(false), 5e-6);
  EXPECT_GT(error(true), 1e-5);
  EXPECT_LT(error(true), 3e-3);
}

}  // namespace
}  // namespace topomask
