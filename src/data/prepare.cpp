#include "topomask/data/prepare.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <map>

#include "core/checks.h"
#include "data/random_order.h"

namespace topomask {
namespace {

struct Statistics {
  std::vector<double> mean, deviation;
};

/// The statistics of the training images, as published with the sets or commonly used with them.
Statistics usual_statistics(const std::string& kind, int64_t channels) {
  if (kind == "cifar10") return {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
  if (kind == "cifar100") return {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}};
  if (kind == "image_folder") return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  const bool idx = kind == "idx";
  const auto count = static_cast<size_t>(channels);
  return {std::vector<double>(count, idx ? 0.286 : 0.5), std::vector<double>(count, idx ? 0.353 : 0.25)};
}

at::Generator generator_for(uint64_t seed, int64_t step) {
  const PhiloxWords words = philox(
      {static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), 0, static_cast<uint32_t>(DrawFor::mixing)},
      philox_key(seed));
  return at::detail::createCPUGenerator(uint64_t{words.a} << 32 | words.b);
}

double draw_beta(double a, const at::Generator& generator) {
  const at::Tensor gamma = at::_standard_gamma(at::full({2}, a, at::kDouble), generator);
  const double first = gamma[0].item<double>(), sum = gamma.sum().item<double>();
  return sum > 0 ? first / sum : 0.5;
}

/// Exchanges a rectangle of area 1 − weight with the images in another order; returns the share that stayed.
double cut_and_paste(at::Tensor& images, const at::Tensor& order, double weight, const at::Generator& generator) {
  const int64_t height = images.size(2), width = images.size(3);
  const double side = std::sqrt(1 - weight);
  const auto rows = static_cast<int64_t>(side * static_cast<double>(height)),
             cols = static_cast<int64_t>(side * static_cast<double>(width));
  const auto centre = [&](int64_t range) { return at::randint(range, {1}, generator, at::kLong).item<int64_t>(); };
  const int64_t y = centre(height), x = centre(width);
  const int64_t top = std::max<int64_t>(0, y - rows / 2), bottom = std::min(height, y - rows / 2 + rows);
  const int64_t left = std::max<int64_t>(0, x - cols / 2), right = std::min(width, x - cols / 2 + cols);
  const auto box = [&](const at::Tensor& of) { return of.slice(2, top, bottom).slice(3, left, right); };
  const at::Tensor pasted = box(images).index_select(0, order);
  box(images).copy_(pasted);
  return 1 - static_cast<double>((bottom - top) * (right - left)) / static_cast<double>(height * width);
}

void check(const ImageBatch& batch, const AugmentOptions& options) {
  TORCH_CHECK(batch.images.defined() && batch.images.scalar_type() == at::kByte && batch.images.dim() == 4,
              "prepare: images must be uint8 [B, C, H, W], got ", describe(batch.images));
  const auto channels = static_cast<size_t>(batch.images.size(1));
  TORCH_CHECK(options.mean.size() == channels && options.standard_deviation.size() == channels,
              "prepare: mean and standard_deviation must have one value for each of ", channels, " channels, got ",
              options.mean.size(), " and ", options.standard_deviation.size());
  for (const double mean : options.mean) check_finite("prepare", "mean", mean);
  for (const double deviation : options.standard_deviation) {
    TORCH_CHECK(deviation > 0, "prepare: standard_deviation must be positive, got ", deviation);
    check_finite("prepare", "standard_deviation", deviation);
  }
  TORCH_CHECK(options.mixup >= 0 && options.cutmix >= 0, "prepare: mixup and cutmix must not be negative, got ",
              options.mixup, " and ", options.cutmix);
  check_finite("prepare", "mixup", options.mixup);
  check_finite("prepare", "cutmix", options.cutmix);
  TORCH_CHECK(batch.labels.defined() && batch.labels.scalar_type() == at::kLong && batch.labels.dim() == 1 &&
                  batch.labels.size(0) == batch.images.size(0),
              "prepare: labels must be int64 [", batch.images.size(0), "], got ", describe(batch.labels));
  const bool mixes = options.mixup > 0 || options.cutmix > 0;
  if (!mixes || batch.labels.numel() == 0 || !batch.labels.is_cpu()) return;
  const int64_t low = batch.labels.min().item<int64_t>(), high = batch.labels.max().item<int64_t>();
  TORCH_CHECK(low >= 0 && high < options.classes, "prepare: labels must be in [0, ", options.classes,
              "), the classes of the options, got ", low < 0 ? low : high);
}

}  // namespace

AugmentOptions augment_options(const DataOptions& options, const ImageDataset& dataset) {
  const Statistics usual = usual_statistics(options.kind, dataset.image_shape()[0]);
  return {.mean = options.mean.empty() ? usual.mean : options.mean,
          .standard_deviation = options.standard_deviation.empty() ? usual.deviation : options.standard_deviation,
          .classes = static_cast<int64_t>(dataset.classes().size()),
          .mixup = options.mixup,
          .cutmix = options.cutmix};
}

AugmentOptions without_mixing(AugmentOptions options) {
  options.mixup = options.cutmix = 0;
  return options;
}

TrainBatch prepare(const ImageBatch& batch, const AugmentOptions& options, at::Device device, uint64_t seed,
                   int64_t step) {
  check(batch, options);
  TORCH_CHECK(step >= 0, "prepare: step must be >= 0, got ", step);
  const auto per_channel = [&](const std::vector<double>& values) {
    return at::tensor(values, at::kDouble).mul_(255).to(device, at::kFloat).view({1, -1, 1, 1});
  };
  TrainBatch ready{.images = batch.images.to(device).to(at::kFloat), .labels = batch.labels.to(device)};
  ready.images = ready.images.sub_(per_channel(options.mean)).div_(per_channel(options.standard_deviation));
  if ((options.mixup == 0 && options.cutmix == 0) || ready.labels.numel() == 0) return ready;

  const at::Generator generator = generator_for(seed, step);
  const bool coin = at::rand({1}, generator, at::kFloat).item<float>() < 0.5F;
  const bool cut = options.cutmix > 0 && (options.mixup == 0 || coin);
  double weight = draw_beta(cut ? options.cutmix : options.mixup, generator);
  const at::Tensor order = at::randperm(ready.labels.size(0), generator, at::kLong).to(device);
  if (cut) {
    weight = cut_and_paste(ready.images, order, weight, generator);
  } else {
    ready.images = at::lerp(ready.images.index_select(0, order), ready.images, weight);
  }
  const at::Tensor one_hot = at::one_hot(ready.labels, options.classes).to(at::kFloat);
  ready.targets = at::lerp(one_hot.index_select(0, order), one_hot, weight);
  return ready;
}

}  // namespace topomask
