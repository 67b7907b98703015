#include <ATen/ATen.h>

#include <limits>

#include "ops/fused_attention/op.h"
#include "support/compare.h"

// tests/attention/fused_route.cpp compares values and gradients with the dense route.

namespace topomask {
namespace {

TEST(FusedAttention, SaysWhatIsWrong) {
  const at::Tensor y = at::rand({1, 2, 4, 3});
  const auto forward = [&](const MaskTiles& tiles) { return ops::fused_attention::forward(y, y, y, tiles, {}); };
  EXPECT_ERROR(forward({.kind = TileKind::matrix, .values = at::rand({2, 4, 5})}),
               "fused_attention: values must be Float [1 or H, n, n] for n = 4");
  EXPECT_ERROR(forward({.kind = TileKind::offsets, .values = at::rand({1, 7}), .index = at::arange(4)}),
               "fused_attention: index must be Int [n] for n = 4, got Long[4]");
  EXPECT_ERROR(forward({.kind = TileKind::ones, .globals = 5}), "globals must be in [0, N], N = 4, got 5");
  const at::Tensor no_heads = at::rand({1, 0, 4, 3});
  EXPECT_ERROR(ops::fused_attention::forward(
                   no_heads, no_heads, no_heads,
                   {.kind = TileKind::offsets, .values = at::rand({0, 7}), .index = at::arange(4, at::kInt)}, {}),
               "fused_attention: values must be Float [1 or H, K]");
}

TEST(FusedAttention, RefusesADtypeThatItDoesNotSupport) {
  const at::Tensor half = at::rand({1, 2, 4, 3}).to(at::kHalf);
  EXPECT_ERROR(ops::fused_attention::forward(half, half, half, {.kind = TileKind::ones}, {}),
               "fused_attention: q must be [B, H, N, m] of float64, float32 or bfloat16 on cpu, got Half[1, 2, 4, 3]");
  const auto supports = [](at::ScalarType dtype, at::DeviceType device) {
    return ops::fused_attention::supports({dtype, 8, 8, TileKind::ones, Weighting::kernel, device});
  };
  EXPECT_FALSE(supports(at::kHalf, at::kCPU));
  EXPECT_TRUE(supports(at::kHalf, at::kCUDA));
  EXPECT_TRUE(supports(at::kDouble, at::kCPU));
  EXPECT_FALSE(supports(at::kDouble, at::kCUDA));
  EXPECT_FALSE(supports(at::kFloat, at::kMPS));
}

TEST(FusedAttention, LearnsOffsetsOfAsManyNodesAsTilesAreListed) {
  const auto most = [](at::ScalarType dtype, int64_t width, TileKind kind, at::DeviceType device) {
    return ops::fused_attention::most_learned_nodes({dtype, width, width, kind, Weighting::kernel, device});
  };
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(most(at::kBFloat16, 64, TileKind::offsets, at::kCUDA), 524288);
  EXPECT_EQ(most(at::kBFloat16, 65, TileKind::offsets, at::kCUDA), 262144);
  EXPECT_EQ(most(at::kFloat, 64, TileKind::offsets, at::kCUDA), 262144);
  EXPECT_EQ(most(at::kFloat, 64, TileKind::offsets, at::kCPU), kAny);
  for (const TileKind kind : {TileKind::ones, TileKind::matrix, TileKind::places, TileKind::factors}) {
    EXPECT_EQ(most(at::kBFloat16, 64, kind, at::kCUDA), kAny);
  }
}

TEST(FusedAttention, MakesTheGradientOfTheMaskByTilesThatFitTheRows) {
  const auto tile = [](at::ScalarType dtype, int64_t width, TileKind kind, int64_t nodes) {
    return ops::fused_attention::gradient_tile({dtype, width, width, kind, Weighting::kernel, at::kCUDA}, nodes);
  };
  EXPECT_EQ(tile(at::kBFloat16, 64, TileKind::offsets, 1025), 128);
  EXPECT_EQ(tile(at::kBFloat16, 64, TileKind::matrix, 1025), 128);
  EXPECT_EQ(tile(at::kBFloat16, 64, TileKind::offsets, 1024), 64);
  EXPECT_EQ(tile(at::kBFloat16, 65, TileKind::offsets, 1025), 64);
  EXPECT_EQ(tile(at::kBFloat16, 64, TileKind::places, 1025), 64);
  EXPECT_EQ(tile(at::kFloat, 64, TileKind::offsets, 1025), 64);
}

}  // namespace
}  // namespace topomask
