#pragma once

#include <ATen/core/Tensor.h>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// Structural similarity of images [..., C, H, W] with values in [0, 1], H and W at least 11: [...].
///
/// The mean over channels and over the positions at which the 11×11 Gaussian window (σ = 1.5) lies inside the image of
///
///     (2 μ_a μ_b + c₁)(2 σ_ab + c₂) / ((μ_a² + μ_b² + c₁)(σ_a² + σ_b² + c₂)),   c₁ = .01², c₂ = .03²,
///
/// with the window's weighted means, variances and covariance (Wang, Bovik, Sheikh and Simoncelli 2004). a and b have
/// one shape, floating dtype and device; the result has their dtype. With `pixels`, bool [..., H, W], the mean is taken
/// over the positions whose middle pixel is chosen: NaN where there is none.
at::Tensor ssim(const at::Tensor& a, const at::Tensor& b, const at::Tensor& pixels = {});

/// Peak signal-to-noise ratio in decibels, −10 log₁₀ of the mean squared difference, of images [..., C, H, W] with
/// values in [0, 1]: [...]. With `pixels`, bool [..., H, W], the mean is taken over all channels of these pixels. Equal
/// images have +∞, images of which no pixel is chosen NaN.
at::Tensor psnr(const at::Tensor& a, const at::Tensor& b, const at::Tensor& pixels = {});

}  // namespace topomask
