#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

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

TEST(TortureJudge, LeavesOutWhatFloat32CannotHoldOnTheWay) {
  const at::Tensor want = at::tensor({1e39, 1e38}, at::kDouble), none = at::zeros({2}, at::kDouble);
  const auto failed = [&](const at::Tensor& got, bool through_float) {
    torture::Judge judge;
    judge.compare("x", got, want, none, 1e-5, through_float);
    return judge.failed();
  };
  const at::Tensor lost = at::tensor({double(INFINITY), 1e38}, at::kDouble);
  EXPECT_FALSE(failed(lost, true));
  EXPECT_TRUE(failed(lost, false));
  EXPECT_TRUE(failed(at::tensor({1e39, double(INFINITY)}, at::kDouble), true));
  EXPECT_FALSE(failed(want, false));
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

/// The same where the entry is accurate, but below what float32 holds; float64 holds it.
TEST(TortureExpected, ARowMayLoseAScoreWhoseEntryUnderflows) {
  const auto sound = [](double entry, at::ScalarType dtype) {
    const at::Tensor matrix = at::eye(2, at::kDouble);
    matrix[0][1].fill_(entry);
    const at::Tensor q = at::ones({2, 1}, at::kDouble), k = at::tensor({0.0, 20.0}, at::kDouble).view({2, 1});
    const torture::Expected expected = torture::expected_softmax(
        {q, k, at::ones_like(k), {matrix, matrix.abs()}, false, 1, 1e-3}, torture::tolerance_of(dtype, 0));
    EXPECT_TRUE(expected.sound[1].item<bool>());
    return expected.sound[0].item<bool>();
  };
  EXPECT_FALSE(sound(1e-39, at::kFloat));
  EXPECT_FALSE(sound(1e-39, at::kBFloat16));
  EXPECT_TRUE(sound(2e-38, at::kFloat));
  EXPECT_TRUE(sound(1e-39, at::kDouble));
}

/// Weight (0, 1) is exp(-100) = 3.7e-44, which float32 has as zero, over D = 1e-5.
TEST(TortureExpected, AWeightThatUnderflowsCountsWithWhatIsLost) {
  const at::Tensor matrix = at::eye(2, at::kDouble) * 1e-5;
  matrix[0][1].fill_(1.0);
  const at::Tensor q = at::tensor({1.0, 0.0}, at::kDouble).view({2, 1}),
                   k = at::tensor({0.0, -100.0}, at::kDouble).view({2, 1}), v = at::ones({2, 1}, at::kDouble),
                   g = at::tensor({1.0, 0.0}, at::kDouble).view({2, 1});
  const auto allowed = [&](at::ScalarType dtype) {
    const torture::Tolerance tolerance = torture::tolerance_of(dtype, 0);
    const torture::SoftmaxProblem problem{q, k, v, {matrix, matrix.abs()}, false, 1, 1e-12};
    const torture::Expected expected = torture::expected_softmax(problem, tolerance);
    EXPECT_TRUE(expected.sound.all().item<bool>());
    const torture::Scales scales = torture::softmax_scales(problem, expected, g);
    // Row 1 has a zero by structure, and no cotangent: nothing is lost to the gradients there.
    EXPECT_EQ(expected.sums[1][0].item<double>(), 0);
    return std::pair(scales.v[1].item<double>() * tolerance.total(), scales.k[1].item<double>() * tolerance.total());
  };
  const auto [v32, k32] = allowed(at::kFloat);
  EXPECT_GT(v32, 1.17e-38 / 1e-5);
  EXPECT_LT(v32, 5e-38 / 1e-5);
  EXPECT_GT(k32, 1.17e-38 / 1e-5);
  EXPECT_LT(k32, 2e-37 / 1e-5);
  const auto [v64, k64] = allowed(at::kDouble);
  EXPECT_LT(v64, 1e-45);
  EXPECT_LT(k64, 1e-45);
}

}  // namespace
