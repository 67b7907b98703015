#include "topomask/tasks/image_scores.h"

#include <ATen/ATen.h>

#include "core/checks.h"

namespace topomask {
namespace {

constexpr int64_t kWindow = 11;
constexpr double kSigma = 1.5;
constexpr double kMeanConstant = 0.01 * 0.01, kVarianceConstant = 0.03 * 0.03;

void check_images(const char* op, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.defined() && a.is_floating_point() && a.dim() >= 3, op,
              ": a must be floating point [..., C, H, W], got ", describe(a));
  TORCH_CHECK(b.defined() && b.scalar_type() == a.scalar_type() && b.sizes() == a.sizes() && b.device() == a.device(),
              op, ": b must be as a, ", describe(a), ", got ", describe(b));
}

/// bool [..., H, W] for images [..., C, H, W].
void check_pixels(const char* op, const at::Tensor& pixels, const at::Tensor& images) {
  std::vector<int64_t> shape = images.sizes().vec();
  shape.erase(shape.end() - 3);
  TORCH_CHECK(pixels.scalar_type() == at::kBool && pixels.sizes() == shape && pixels.device() == images.device(), op,
              ": pixels must be bool ", at::IntArrayRef(shape), " on ", images.device(), ", got ", describe(pixels));
}

/// Means under the window wherever it lies inside the image, [M, 1, H, W] to [M, 1, H − 10, W − 10]: along the rows,
/// then along the columns, since a Gaussian is a product.
at::Tensor window_means(const at::Tensor& values) {
  const at::Tensor steps = at::arange(kWindow, values.options()) - (kWindow - 1) / 2;
  at::Tensor window = (steps * steps / (-2 * kSigma * kSigma)).exp();
  window = window / window.sum();
  return at::conv2d(at::conv2d(values, window.reshape({1, 1, 1, kWindow})), window.reshape({1, 1, kWindow, 1}));
}

}  // namespace

at::Tensor ssim(const at::Tensor& a, const at::Tensor& b, const at::Tensor& pixels) {
  check_images("ssim", a, b);
  const int64_t c = a.size(-3), h = a.size(-2), w = a.size(-1);
  TORCH_CHECK(h >= kWindow && w >= kWindow && c > 0, "ssim: images must have at least ", kWindow, "x", kWindow,
              " pixels and a channel, got ", describe(a));
  const at::IntArrayRef outer = a.sizes().slice(0, static_cast<size_t>(a.dim() - 3));
  const at::Tensor x = a.reshape({-1, 1, h, w}), y = b.reshape({-1, 1, h, w});
  if (x.size(0) == 0) return at::empty(outer, a.options());
  const at::Tensor mean_x = window_means(x), mean_y = window_means(y);
  const at::Tensor variances = window_means(x * x + y * y) - mean_x * mean_x - mean_y * mean_y;
  const at::Tensor covariance = window_means(x * y) - mean_x * mean_y;
  const at::Tensor map = (2 * mean_x * mean_y + kMeanConstant) * (2 * covariance + kVarianceConstant) /
                         ((mean_x * mean_x + mean_y * mean_y + kMeanConstant) * (variances + kVarianceConstant));
  if (!pixels.defined()) return map.reshape({-1, c * map.size(2) * map.size(3)}).mean(1).reshape(outer);
  check_pixels("ssim", pixels, a);
  constexpr int64_t kMargin = kWindow / 2;
  const at::Tensor chosen =
      pixels.slice(-2, kMargin, h - kMargin).slice(-1, kMargin, w - kMargin).reshape({-1, map.size(2) * map.size(3)});
  const at::Tensor by_position = map.reshape({-1, c, map.size(2) * map.size(3)}).mean(1);
  const at::Tensor sum = at::where(chosen, by_position, at::zeros({}, by_position.options())).sum(1);
  return (sum / chosen.sum(1)).reshape(outer);
}

at::Tensor psnr(const at::Tensor& a, const at::Tensor& b, const at::Tensor& pixels) {
  check_images("psnr", a, b);
  const at::Tensor squares = (a - b).square().mean(-3);  // [..., H, W]
  if (!pixels.defined()) return squares.flatten(-2).mean(-1).log10() * -10;
  check_pixels("psnr", pixels, a);
  const at::Tensor sum = at::where(pixels, squares, at::zeros({}, squares.options())).flatten(-2).sum(-1);
  return (sum / pixels.flatten(-2).sum(-1)).log10() * -10;
}

}  // namespace topomask
