#include "core/checks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/compare.h"

namespace topomask {
namespace {

TEST(CheckFinite, NamesTheFirstValueAndItsPlace) {
  check_finite("op", "x", at::ones({3, 4}));
  check_finite("op", "x", at::empty({0}));
  check_finite("op", "x", at::full({2}, std::numeric_limits<float>::max()));
  at::Tensor x = at::ones({2, 3, 4}, at::kDouble);
  x[1][2][3] = -INFINITY;
  EXPECT_ERROR(check_finite("op", "x", x), "op: x must be finite, got -inf at [1, 2, 3]");
  x[0][1][2] = NAN;
  EXPECT_ERROR(check_finite("op", "x", x), "op: x must be finite, got nan at [0, 1, 2]");
  EXPECT_ERROR(check_finite("op", "x", x.transpose(0, 2)), "got nan at [2, 1, 0]");
  EXPECT_ERROR(check_finite("op", "x", at::full({}, INFINITY)), "op: x must be finite, got inf");
  EXPECT_ERROR(check_finite("op", "x", at::full({7}, NAN).requires_grad_()), "got nan at 0");
}

TEST(CheckFinite, FindsTheFirstAmongManyOnAnyNumberOfThreads) {
  at::Tensor x = at::ones({1000000});
  x[700001] = NAN;
  x[900000] = NAN;
  EXPECT_ERROR(check_finite("op", "x", x), "got nan at 700001");
}

TEST(CheckFinite, LooksAtNothingThatIsNotOnTheCpu) {
  check_finite("op", "x", at::empty({3}, at::device(at::kMeta)));
  check_below_infinity("op", "x", at::empty({3}, at::device(at::kMeta)));
}

TEST(CheckBelowInfinity, AllowsMinusInfinity) {
  check_below_infinity("op", "x", at::full({2}, -INFINITY));
  EXPECT_ERROR(check_below_infinity("op", "x", at::full({2}, INFINITY)), "op: x must be below infinity, got inf at 0");
  EXPECT_ERROR(check_below_infinity("op", "x", at::full({2}, NAN)), "op: x must be below infinity, got nan at 0");
}

TEST(CheckedProduct, DoesNotOverflow) {
  EXPECT_EQ(checked_product("op", "sizes", {3, 5, 7}, 105), 105);
  EXPECT_EQ(checked_product("op", "sizes", {}, 1), 1);
  EXPECT_EQ(checked_product("op", "sizes", {INT64_MAX, INT64_MAX, 0}, 1), 0);
  EXPECT_ERROR(checked_product("op", "sizes", {3, 5, 7}, 104), "op: sizes must be at most 104, got 3 x 5 x 7");
  EXPECT_ERROR(checked_product("op", "sizes", {INT64_MAX, 2}, INT64_MAX), "op: sizes must be at most");
  EXPECT_ERROR(checked_product("op", "sizes", {-1, 2}, 10), "got -1 x 2");
}

TEST(NodeDtypes, AreFloat16OnCudaOnly) {
  for (const at::DeviceType device : {at::kCPU, at::kCUDA}) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      EXPECT_TRUE(is_node_dtype(dtype, device)) << dtype << " on " << device;
    }
    EXPECT_EQ(is_node_dtype(at::kHalf, device), device == at::kCUDA);
    for (const at::ScalarType dtype : {at::kLong, at::kBool, at::kComplexFloat, at::kFloat8_e5m2}) {
      EXPECT_FALSE(is_node_dtype(dtype, device)) << dtype << " on " << device;
    }
  }
  EXPECT_FALSE(is_node_dtype(at::kFloat, at::kMPS));
  EXPECT_STREQ(node_dtypes(at::kCPU), "float64, float32 or bfloat16 on cpu");
  EXPECT_STREQ(node_dtypes(at::kCUDA), "float64, float32, bfloat16 or float16 on cuda");
}

}  // namespace
}  // namespace topomask
