#include "topomask/tasks/image_scores.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"
#include "support/golden.h"

namespace topomask::testing {
namespace {

TEST(Ssim, EqualsTheReference) {
  const auto values = golden("ssim");
  for (const char* i : {"0", "1", "2"}) {
    const at::Tensor a = values.at(std::string("a") + i).permute({2, 0, 1});
    const at::Tensor b = values.at(std::string("b") + i).permute({2, 0, 1});
    const double wanted = values.at(std::string("ssim") + i).item<double>();
    EXPECT_NEAR(ssim(a, b).item<double>(), wanted, 1e-10);
    EXPECT_NEAR(ssim(b, a).item<double>(), wanted, 1e-10);
    EXPECT_NEAR(ssim(a.to(at::kFloat), b.to(at::kFloat)).item<double>(), wanted, 1e-5);
    EXPECT_NEAR(ssim(a, a).item<double>(), 1, 1e-12);
  }
}

TEST(Ssim, TakesBatchesImageByImage) {
  const at::Tensor a = at::rand({2, 3, 3, 12, 17}, at::kDouble), b = at::rand({2, 3, 3, 12, 17}, at::kDouble);
  const at::Tensor all = ssim(a, b);
  ASSERT_EQ(all.sizes(), at::IntArrayRef({2, 3}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) EXPECT_NEAR(all[i][j].item<double>(), ssim(a[i][j], b[i][j]).item<double>(), 1e-12);
  }
  EXPECT_EQ(ssim(a.narrow(0, 0, 0), b.narrow(0, 0, 0)).sizes(), at::IntArrayRef({0, 3}));
}

TEST(Ssim, OfPixelsIsThatOfTheWindowsAroundThem) {
  const at::Tensor a = at::rand({2, 3, 14, 17}, at::kDouble), b = at::rand({2, 3, 14, 17}, at::kDouble);
  at::Tensor pixels = at::zeros({2, 14, 17}, at::kBool);
  pixels[0][5][6] = pixels[0][8][11] = true;
  pixels[0][4][6] = true;  // no window lies around it
  const at::Tensor some = ssim(a, b, pixels);
  const auto around = [&](int64_t row, int64_t column) {
    const auto cut = [&](const at::Tensor& x) { return x[0].narrow(1, row - 5, 11).narrow(2, column - 5, 11); };
    return ssim(cut(a), cut(b)).item<double>();
  };
  EXPECT_NEAR(some[0].item<double>(), (around(5, 6) + around(8, 11)) / 2, 1e-12);
  EXPECT_TRUE(std::isnan(some[1].item<double>()));
  EXPECT_NEAR(ssim(a, b, at::ones_like(pixels))[1].item<double>(), ssim(a, b)[1].item<double>(), 1e-12);
  EXPECT_ERROR(ssim(a, b, pixels[0]), "ssim: pixels must be bool [2, 14, 17] on cpu, got Bool[14, 17]");
}

TEST(Psnr, IsTheLogarithmOfTheMeanSquare) {
  const at::Tensor a = at::rand({2, 3, 6, 7}, at::kDouble), b = at::rand({2, 3, 6, 7}, at::kDouble);
  at::Tensor pixels = at::zeros({2, 6, 7}, at::kBool);
  pixels[0][1][2] = true;
  pixels[0][5][6] = true;
  const at::Tensor whole = psnr(a, b), some = psnr(a, b, pixels);
  ASSERT_EQ(whole.sizes(), at::IntArrayRef({2}));
  EXPECT_NEAR(whole[1].item<double>(), -10 * std::log10((a - b)[1].square().mean().item<double>()), 1e-12);
  const at::Tensor squares = (a - b)[0].square();
  const double mean =
      (squares.select(1, 1).select(1, 2).sum() + squares.select(1, 5).select(1, 6).sum()).item<double>() / 6;
  EXPECT_NEAR(some[0].item<double>(), -10 * std::log10(mean), 1e-12);
  EXPECT_TRUE(std::isnan(some[1].item<double>()));  // no pixel
  EXPECT_TRUE(std::isinf(psnr(a, a)[0].item<double>()));
  EXPECT_NEAR(psnr(a, b, at::ones({2, 6, 7}, at::kBool))[1].item<double>(), whole[1].item<double>(), 1e-12);
}

TEST(ImageScores, RefuseImagesThatCannotBeCompared) {
  const at::Tensor a = at::rand({3, 12, 12});
  EXPECT_ERROR(ssim(a, at::rand({3, 12, 13})), "ssim: b must be as a, Float[3, 12, 12] on cpu, got Float[3, 12, 13]");
  EXPECT_ERROR(ssim(a.to(at::kByte), a.to(at::kByte)), "ssim: a must be floating point [..., C, H, W], got Byte");
  EXPECT_ERROR(ssim(at::rand({3, 10, 12}), at::rand({3, 10, 12})), "ssim: images must have at least 11x11 pixels");
  EXPECT_ERROR(psnr(a, at::rand({12, 12})), "psnr: b must be as a");
  EXPECT_ERROR(psnr(a, a, at::ones({12, 12})), "psnr: pixels must be bool [12, 12] on cpu, got Float[12, 12]");
}

}  // namespace
}  // namespace topomask::testing
