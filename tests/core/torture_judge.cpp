#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "torture/expected.h"
#include "torture/judge.h"
#include "torture/refusal.h"

// What the random tests (tests/torture) count as passed, refused and not to be compared.

namespace {

using namespace topomask;
using torture::RefusedByDesign;

constexpr const char* kLimit =
    "sparse_attention: q and v must have at most 512 columns of this dtype on cuda, got 600 and 3";

TEST(TortureRefusal, IsTheDocumentedTextWithARowBeyondTheLimit) {
  EXPECT_TRUE(torture::is_row_limit(kLimit));
  EXPECT_TRUE(torture::is_row_limit(
      "sparse_attention: q and v must have at most 512 columns of this dtype on cuda, got 3 and 513"));
  EXPECT_FALSE(torture::is_row_limit(
      "sparse_attention: q and v must have at most 512 columns of this dtype on cuda, got 512 and 3"));
  EXPECT_FALSE(torture::is_row_limit("sparse_attention: q must have at most 512 columns"));
  EXPECT_FALSE(torture::is_row_limit(std::string("attention: ") + kLimit));
  EXPECT_FALSE(torture::is_row_limit(""));
}

TEST(TortureRefusal, CountsOnlyWhereTheSparseRouteWasAskedFor) {
  const auto refuse = [](const char* text) { return [text]() -> at::Tensor { TORCH_CHECK(false, text); }; };
  EXPECT_THROW(torture::with_refusals(Route::sparse, refuse(kLimit)), RefusedByDesign);
  EXPECT_THROW(torture::with_refusals(Route::automatic, refuse(kLimit)), c10::Error);
  EXPECT_THROW(torture::with_refusals(Route::dense, refuse(kLimit)), c10::Error);
  EXPECT_THROW(torture::with_refusals(Route::sparse, refuse("sparse_attention: out of memory")), c10::Error);
  EXPECT_EQ(torture::with_refusals(Route::sparse, [] { return 3; }), 3);
}

TEST(TortureJudge, LeavesOutWhatFloat16CannotHold) {
  const at::Tensor largest = at::tensor({1.0, -65504.0}, at::kDouble);
  EXPECT_TRUE(torture::fit_half({largest, at::empty({0}, at::kDouble)}));
  EXPECT_FALSE(torture::fit_half({at::ones({2}, at::kDouble), largest * 1.01}));
  EXPECT_FALSE(torture::fit_half({largest / 0.0}));
  EXPECT_FALSE(torture::fit_half({at::full({1}, std::nan(""), at::kDouble)}));
}

TEST(TortureJudge, ComparesFloat16UpToItsLargestValue) {
  const at::Tensor want = at::tensor({50000.0}, at::kDouble), none = at::zeros({1}, at::kDouble);
  torture::Judge right, wrong, beyond;
  right.compare("x", want.to(at::kHalf), want, none, 5e-3);
  EXPECT_FALSE(right.failed());
  wrong.compare("x", (want / 2).to(at::kHalf), want, none, 5e-3);
  EXPECT_TRUE(wrong.failed());
  beyond.compare("x", at::full({1}, INFINITY, at::kHalf), want * 2, none, 5e-3);
  EXPECT_FALSE(beyond.failed());
}

TEST(TortureJudge, LeavesOutEntriesWhoseScaleIsInfinite) {
  const at::Tensor want = at::tensor({2.0, 3.0}, at::kDouble), scale = at::tensor({double(INFINITY), 0.0}, at::kDouble);
  torture::Judge some, other;
  some.compare("x", at::tensor({0.0, 3.0}, at::kDouble), want, scale, 1e-3);
  EXPECT_FALSE(some.failed());
  other.compare("x", at::tensor({2.0, 0.0}, at::kDouble), want, scale, 1e-3);
  EXPECT_TRUE(other.failed());
}

/// Entry (0, 1) of M is 1e-30 where its method is accurate to 1: it may come out as zero, so that exp(20) is not the
/// largest exponential of the row, whose denominator is then far from the clamp.
TEST(TortureExpected, ARowMayLoseItsLargestScore) {
  const at::Tensor matrix = at::eye(2, at::kDouble);
  matrix[0][1].fill_(1e-30);
  const at::Tensor q = at::ones({2, 1}, at::kDouble), k = at::tensor({0.0, 20.0}, at::kDouble).view({2, 1}),
                   v = at::tensor({2.6, 1e-4}, at::kDouble).view({2, 1});
  const torture::Tolerance tolerance = torture::tolerance_of(at::kBFloat16, 0);
  const auto expected = [&](double eps) {
    return torture::expected_softmax({q, k, v, {matrix, at::ones_like(matrix)}, false, 1, eps}, tolerance);
  };
  const torture::Expected clamped = expected(1e-3);
  EXPECT_FALSE(clamped.sound[0].item<bool>());
  EXPECT_GE(clamped.scale[0].item<double>(), 2.6);  // what a mask without the entry gives
  // The other row has its largest score for certain.
  EXPECT_TRUE(clamped.sound[1].item<bool>());
  // Where the clamp does not act, nothing depends on which exponent is taken out: the bound stays what it was.
  const torture::Expected free = expected(1e-12);
  EXPECT_FALSE(free.sound[0].item<bool>());
  EXPECT_LT(free.scale[0].item<double>(), 1e13);
}

}  // namespace
