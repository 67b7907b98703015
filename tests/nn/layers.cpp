#include "nn/layers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/functional.h>

#include "support/compare.h"
#include "support/devices.h"
#include "tasks/autocast.h"

namespace topomask {
namespace {

using testing::close;

/// Compares a layer's outputs and gradients, computed by `ours`, with torch's own.
template <class Layer, class Ours>
void expect_torchs(const Layer& layer, const at::Tensor& values, const Ours& ours) {
  const auto results = [&](const auto& call) {
    const at::Tensor x = values.detach().clone().requires_grad_();
    const at::Tensor y = call(x);
    const auto grads = torch::autograd::grad({(y * y.cos()).sum()}, {x, layer->weight, layer->bias});
    return std::vector<at::Tensor>{y, grads[0], grads[1], grads[2]};
  };
  const auto mine = results(ours), torchs = results([&](const at::Tensor&x) { return layer.ptr()->forward(x); });
  for (size_t i = 0; i < mine.size(); ++i) {
    ASSERT_EQ(mine[i].sizes(), torchs[i].sizes());
    EXPECT_TRUE(close(mine[i], torchs[i], 1e-10)) << i;
  }
}

TEST(Layers, LinearIsTorchsWithGradients) {
  torch::nn::Linear layer(5, 3);
  layer->to(at::kDouble);
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{7, 5}, {2, 3, 5}, {0, 4, 5}}) {
    expect_torchs(layer, at::rand(sizes, at::kDouble), [&](const at::Tensor& x) { return forward(layer, x); });
  }
  expect_torchs(layer, at::rand({5, 7}, at::kDouble).t(), [&](const at::Tensor& x) { return forward(layer, x); });
}

TEST(Layers, LinearFollowsAutocast) {
  torch::nn::Linear layer(8, 4);
  const at::Tensor x = at::rand({3, 8});
  const Autocast autocast(at::kCPU, "bfloat16");
  const at::Tensor y = forward(layer, x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(close(y, layer->forward(x), 1e-2));
  y.sum().backward();
  EXPECT_EQ(layer->weight.grad().scalar_type(), at::kFloat);
}

TEST(Layers, LinearOfAnyFeaturesIsPaddedIn16Bits) {
  for (const at::Device device : testing::devices()) {
    for (const auto& [in, out] : {std::pair<int64_t, int64_t>{10, 16}, {16, 3}, {5, 19}, {1, 1}}) {
      torch::nn::Linear layer(in, out);
      layer->to(device);
      const at::Tensor x = at::rand({2, 7, in}, device).requires_grad_(true), g = at::rand({2, 7, out}, device);
      const auto results = [&](const char* precision) {
        at::Tensor y;
        {
          const Autocast autocast(device.type(), precision);
          y = forward(layer, x);
        }
        const auto grads = torch::autograd::grad({(y * g).sum()}, {x, layer->weight, layer->bias});
        return std::vector<at::Tensor>{y.to(at::kFloat), grads[0], grads[1], grads[2]};
      };
      const auto padded = results("bfloat16"), wide = results("float32");
      for (size_t i = 0; i < wide.size(); ++i) {
        ASSERT_EQ(padded[i].sizes(), wide[i].sizes());
        EXPECT_TRUE(close(padded[i], wide[i], 3e-2, 3e-2)) << in << " " << out << " " << i;
      }
    }
  }
}

TEST(Layers, NormIsTorchsWithGradients) {
  torch::nn::LayerNorm layer(torch::nn::LayerNormOptions({6}));
  layer->to(at::kDouble);
  at::NoGradGuard no_grad;
  layer->weight.uniform_(0.5, 2);
  layer->bias.uniform_();
  const at::AutoGradMode grad(true);
  for (const at::Device device : testing::devices()) {
    layer->to(device);
    for (const auto& sizes : std::vector<std::vector<int64_t>>{{7, 6}, {2, 3, 6}}) {
      expect_torchs(layer, at::rand(sizes, at::device(device).dtype(at::kDouble)),
                    [&](const at::Tensor& x) { return norm_by_products(layer, x); });
    }
  }
}

/// What follows would convert the rows to autocast's dtype; on a GPU they come so.
TEST(Layers, NormBeforeALinearLayerIsTheNormInItsDtype) {
  for (const at::Device device : testing::devices()) {
    for (const int64_t width : {64, 66, 320}) {  // the last two have no kernel of their own
      torch::nn::LayerNorm layer(torch::nn::LayerNormOptions({width}));
      layer->to(device);
      const at::Tensor x = (at::randn({2, 5, width}, device) + 1).requires_grad_(),
                       g = at::randn({2, 5, width}, device);
      const auto results = [&](const at::Tensor& y) {
        const auto grads = torch::autograd::grad({(y.to(at::kFloat) * g).sum()}, {x, layer->weight, layer->bias});
        return std::vector<at::Tensor>{y, grads[0], grads[1], grads[2]};
      };
      const auto want = results(layer->forward(x)), wide = results(before_linear(layer, x));
      const auto low = [&] {
        const Autocast autocast(device.type(), "bfloat16");
        return results(before_linear(layer, x));
      }();
      if (device.is_cuda()) {
        EXPECT_EQ(low[0].scalar_type(), width == 64 ? at::kBFloat16 : at::kFloat);
      }
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(close(wide[i], want[i], 1e-5)) << width << " " << i;
        EXPECT_TRUE(close(low[i], want[i], 2e-2)) << width << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace topomask
