#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nn/points/testing.h"
#include "support/compare.h"
#include "support/devices.h"

namespace topomask {
namespace {

using at::Tensor;
using testing::close;
using testing::gradients;

/// The colours of some rays after a rollout, and their gradients in all parameters.
std::vector<Tensor> colours_and_gradients(PointModel& model, const at::Device& device) {
  at::manual_seed(11);
  const PointModelOptions& o = model.options();
  const auto there = [&](const Tensor& x) { return x.to(device); };
  const auto [k, pose] = testing::two_cameras(2);
  const Cameras cameras(k, pose, 8, 8, at::device(device).dtype(at::kFloat));
  const auto encode = [&](uint64_t item) {
    const Tensor keys = at::stack({subsample_keys(1, item, 128), subsample_keys(1, item + 1, 128)});
    return model
        .encode(there(at::randint(0, 256, {2, 2, 8, 8, 3}, at::kByte)), there(at::rand({2, 2, 8, 8}) + 0.5), cameras,
                there(keys))
        .cloud;
  };
  const PointCloud before = encode(0), now = encode(2);
  const auto clouds = model.rollout(before, now, there(at::rand({2, 4, 5, 3})), 2);
  const Rays rays = cameras.rays(there(at::randint(0, 64, {2, 2, 6}, at::kLong)));
  const Tensor colours = model.renderer().forward(clouds.back(), rays, there(at::rand({2, 12, o.samples})));
  std::vector<Tensor> result = gradients(colours, there(at::randn({2, 12, 3})), model.parameters());
  result.insert(result.begin(), colours);
  for (Tensor& x : result) x = x.detach().cpu();
  return result;
}

TEST(PointModel, OnAGpuIsTheCpus) {
  if (!testing::has_cuda()) GTEST_SKIP() << "no GPU here: this runs on a machine with one";
  for (const std::string& local : local_layer_names()) {
    PointModelOptions options = testing::small_options(local);
    options.render_bandwidths = {0.2, 0.1, 0.1, 0.3};
    options.recompute = local == "grf";
    PointModel model(options, 1);
    at::manual_seed(12);
    testing::shake(model, at::kFloat);
    const auto expected = colours_and_gradients(model, at::kCPU);
    model.to(at::Device(at::kCUDA, 0));
    const auto actual = colours_and_gradients(model, at::Device(at::kCUDA, 0));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(close(actual[i], expected[i], 1e-2, 1e-4)) << local << i;
  }
}

}  // namespace
}  // namespace topomask
