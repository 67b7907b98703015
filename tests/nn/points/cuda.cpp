#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nn/points/testing.h"
#include "support/compare.h"
#include "support/devices.h"
#include "tasks/autocast.h"

// Absent where torch or the toolkit is for the CPU alone.
#if __has_include(<cuda_runtime_api.h>) && __has_include(<c10/cuda/impl/cuda_cmake_macros.h>)
#include <c10/cuda/CUDAFunctions.h>
#define TOPOMASK_HAS_SYNC_DEBUG_MODE
#endif

namespace topomask {
namespace {

using at::Tensor;
using testing::close;
using testing::gradients;

/// What a step of training takes, made on the CPU and copied.
struct StepInputs {
  Cameras cameras;
  std::vector<Tensor> rgb, depth, keys;  // of two instants
  Tensor actions, pixels, jitter, cotangent;
};

StepInputs drawn_scene(const PointModelOptions& options, const at::Device& device) {
  at::manual_seed(11);
  const auto there = [&](const Tensor& x) { return x.to(device); };
  const auto [k, pose] = testing::two_cameras(2);
  StepInputs scene{.cameras = Cameras(k, pose, 8, 8, at::device(device).dtype(at::kFloat))};
  for (const uint64_t item : {0, 2}) {
    scene.rgb.push_back(there(at::randint(0, 256, {2, 2, 8, 8, 3}, at::kByte)));
    scene.depth.push_back(there(at::rand({2, 2, 8, 8}) + 0.5));
    scene.keys.push_back(there(at::stack({subsample_keys(1, item, 128), subsample_keys(1, item + 1, 128)})));
  }
  scene.actions = there(at::rand({2, 4, 5, 3}));
  scene.pixels = there(at::randint(0, 64, {2, 2, 6}, at::kLong));
  scene.jitter = there(at::rand({2, 12, options.samples}));
  scene.cotangent = there(at::randn({2, 12, 3}));
  return scene;
}

/// The colours of some rays after a rollout, and their gradients in all parameters.
std::vector<Tensor> colours_and_gradients(PointModel& model, const StepInputs& scene,
                                          const std::string& precision = "float32") {
  Tensor colours;
  {
    const Autocast autocast(scene.actions.device().type(), precision);
    const auto encode = [&](size_t i) {
      return model.encode(scene.rgb[i], scene.depth[i], scene.cameras, scene.keys[i]).cloud;
    };
    const PointCloud before = encode(0), now = encode(1);
    const auto clouds = model.rollout(before, now, scene.actions, 2);
    colours = model.renderer().forward(clouds.back(), scene.cameras.rays(scene.pixels), scene.jitter);
  }
  std::vector<Tensor> result = gradients(colours, scene.cotangent.to(colours.scalar_type()), model.parameters());
  result.insert(result.begin(), colours.detach());
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
    const at::Device gpu(at::kCUDA, 0);
    const auto expected = colours_and_gradients(model, drawn_scene(options, at::kCPU));
    model.to(gpu);
    const auto actual = colours_and_gradients(model, drawn_scene(options, gpu));
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(close(actual[i].cpu(), expected[i], 1e-2, 1e-4)) << local << i;
    }
  }
}

#ifdef TOPOMASK_HAS_SYNC_DEBUG_MODE

/// Whatever of torch waits for the GPU is an error meanwhile, in the threads of backward passes too.
class NothingWaits {
 public:
  NothingWaits() { c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR); }
  ~NothingWaits() { c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED); }
  NothingWaits(const NothingWaits&) = delete;
};

TEST(PointModel, ReadsNothingBackInAStep) {
  if (!testing::has_cuda()) GTEST_SKIP() << "no GPU here: this runs on a machine with one";
  const at::Device gpu(at::kCUDA, 0);
  const Tensor there = at::ones({1}, at::device(gpu));
  {
    const NothingWaits guard;
    EXPECT_ERROR(there.item<float>(), "synchronizing CUDA operation");
  }
  // Those that docs/points.md names; the others wait for sizes of their graphs.
  for (const std::string local : {"none", "unmasked", "message_passing", "neighbours", "grf"}) {
    for (const std::string precision : {"float32", "bfloat16"}) {
      const PointModelOptions options = testing::small_options(local);
      PointModel model(options, 1);
      testing::shake(model, at::kFloat);
      model.to(gpu);
      const StepInputs scene = drawn_scene(options, gpu);
      colours_and_gradients(model, scene, precision);  // the first step may make what later ones keep
      const NothingWaits guard;
      EXPECT_NO_THROW(colours_and_gradients(model, scene, precision)) << local << ", " << precision;
    }
  }
  at::globalContext().setFloat32MatmulPrecision("highest");  // as before Autocast
}

#else

TEST(PointModel, ReadsNothingBackInAStep) {
  GTEST_SKIP() << "built without the headers of CUDA, by which torch says that something waits for a GPU";
}

#endif

}  // namespace
}  // namespace topomask
