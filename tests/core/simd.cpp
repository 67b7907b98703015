#include "core/simd.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "core/simd_exp.h"

namespace topomask {
namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
TEST(Simd, RunsTheHighestLevelOfThisProcessor) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "kernels have one version under the thread sanitizer (core/simd.h)";
#endif
  int expected = 1;
  if (__builtin_cpu_supports("x86-64-v3")) expected = 3;
  if (__builtin_cpu_supports("x86-64-v4")) expected = 4;
  EXPECT_EQ(simd_level(), expected);
}

TEST(Simd, TheLinkerChoseTheKernelOfThatLevel) {
  // The compiler's names: versions of a kernel carry a suffix, and one more symbol stands for the choice between them.
  // Looking that one up gives the version that runs.
  const std::string versions = "_ZN8topomask3ops4spmm18spmm_rows_versionsERKNS1_8SpmmArgsIfEEll";
  const std::string choice = "_Z" + std::to_string(versions.size()) + versions + "RKN8topomask3ops4spmm8SpmmArgsIfEEll";
  void* chosen = dlsym(RTLD_DEFAULT, choice.c_str());
  if (!chosen) GTEST_SKIP() << "this compiler names the choice between versions of a function otherwise";
  EXPECT_NE(dlsym(RTLD_DEFAULT, (versions + ".arch_x86_64_v3").c_str()), nullptr);
  EXPECT_NE(dlsym(RTLD_DEFAULT, (versions + ".arch_x86_64_v4").c_str()), nullptr);
  Dl_info found{};
  ASSERT_NE(dladdr(chosen, &found), 0);
  const std::string suffix = simd_level() == 1 ? "" : ".arch_x86_64_v" + std::to_string(simd_level());
  EXPECT_EQ(std::string(found.dli_sname), versions + suffix);
}
#endif

template <int kBytes>
void check_sums() {
  using F = Simd<float, kBytes>;
  using D = Simd<double, kBytes>;
  std::vector<float> f(4 * F::kLanes);
  std::vector<double> d(4 * D::kLanes);
  std::iota(f.begin(), f.end(), 1.0f);
  std::iota(d.begin(), d.end(), 1.0);
  const auto fs =
      F::sums(F::load(&f[0]), F::load(&f[F::kLanes]), F::load(&f[2 * F::kLanes]), F::load(&f[3 * F::kLanes]));
  const auto ds =
      D::sums(D::load(&d[0]), D::load(&d[D::kLanes]), D::load(&d[2 * D::kLanes]), D::load(&d[3 * D::kLanes]));
  for (int n = 0; n < 4; ++n) {
    EXPECT_EQ(fs[n], std::accumulate(&f[n * F::kLanes], &f[n * F::kLanes] + F::kLanes, 0.0f));
    EXPECT_EQ(ds[n], std::accumulate(&d[n * D::kLanes], &d[n * D::kLanes] + D::kLanes, 0.0));
  }
}

TEST(Simd, SumsFourVectorsAtOnceAtEveryWidth) {
  check_sums<16>();
  check_sums<32>();
  check_sums<64>();
}

TEST(Simd, ExponentialIsWithinOneAndAHalfUnitsInTheLastPlace) {
  double worst = 0;
  for (float x = -86.9f; x < 88.0f; x += 0.00917f) {
    std::vector<float> values(16, x);
    exponentials(Simd<float, 64>{}, values.data(), 16);
    const double exact = std::exp(static_cast<double>(x));
    const double unit =
        std::nextafter(static_cast<float>(exact), std::numeric_limits<float>::infinity()) - static_cast<float>(exact);
    worst = std::max(worst, std::abs(values[3] - exact) / unit);
  }
  EXPECT_LT(worst, 1.5);
}

TEST(Simd, ExponentialIsFiniteAboveZeroBelowAndKeepsNan) {
  std::vector<float> values = {1000, -1000, 0, std::nanf(""), -std::numeric_limits<float>::infinity(), 1};
  values.resize(16);
  exponentials(Simd<float, 16>{}, values.data(), 6);
  EXPECT_TRUE(std::isfinite(values[0]));
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[2], 1);
  EXPECT_TRUE(std::isnan(values[3]));
  EXPECT_EQ(values[4], 0);
  EXPECT_FLOAT_EQ(values[5], std::exp(1.0f));
}

TEST(RowRanges, VisitEveryRowOnceAndAreBalancedByEntries) {
  // One long row among short and empty ones.
  std::vector<int64_t> offsets = {0};
  for (int64_t i = 0; i < 1000; ++i) offsets.push_back(offsets.back() + (i == 500 ? 5000 : i % 3));
  const int threads = at::get_num_threads();
  for (const int count : {1, 2, 7}) {
    at::set_num_threads(count);
    std::vector<int> visits(3 * 1000);
    for_row_ranges(offsets.data(), 1000, 3, 1000, [&](int64_t slice, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++visits[slice * 1000 + i];
    });
    EXPECT_EQ(visits, std::vector<int>(3000, 1));
  }
  at::set_num_threads(threads);
  const int64_t half = row_at(offsets.data(), 1000, (offsets.back() + 1000) / 2);
  EXPECT_NEAR(half, 501, 1);
  EXPECT_EQ(row_at(offsets.data(), 1000, 0), 0);
  EXPECT_EQ(row_at(offsets.data(), 1000, offsets.back() + 1000), 1000);
}

TEST(RowRanges, AcceptsAPatternWithoutRows) {
  const int64_t offsets[] = {0};
  for_row_ranges(offsets, 0, 2, 10, [](int64_t, int64_t, int64_t) { FAIL(); });
}

}  // namespace
}  // namespace topomask
