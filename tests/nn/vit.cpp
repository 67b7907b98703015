#include "topomask/nn/vit.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/devices.h"
#include "support/mask_contract.h"
#include "topomask/masks.h"
#include "topomask/nn/parameters.h"
#include "topomask/power_series.h"

namespace topomask {
namespace {

TEST(ViT, PresetsHaveTheSizesOfTheirNames) {
  ViTOptions base = ViTOptions::preset("base");
  EXPECT_EQ(base.width, 768);
  EXPECT_EQ(base.depth, 12);
  EXPECT_EQ(base.heads, 12);
  EXPECT_EQ(base.patch_size, 16);
  EXPECT_EQ(base.walkers, 100);
  base.image_size = 224;
  EXPECT_EQ(base.tokens(), 197);
  EXPECT_EQ(preset_names(), (std::vector<std::string>{"base", "pico", "small", "tiny"}));
  EXPECT_ERROR(ViTOptions::preset("huge"), "name must be one of base, pico, small, tiny, got huge");
}

TEST(ViT, BaseHasAsManyParametersAsThePaper) {
  ViTOptions options = ViTOptions::preset("base");
  options.image_size = 224;
  options.channels = 3;
  options.classes = 1000;
  options.variant = "softmax";
  EXPECT_EQ(ViT(options).parameter_count(), 86567656);
}

TEST(ViT, ImagesOfAnotherShapeAreRefused) {
  ViTOptions options = ViTOptions::preset("pico");
  options.image_size = 8;
  options.channels = 1;
  options.classes = 2;
  options.variant = "linear";
  ViT model(options);
  EXPECT_ERROR(model.forward(at::zeros({2, 3, 8, 8})), "images must be Float [B, 1, 8, 8], got Float[2, 3, 8, 8]");
  EXPECT_ERROR(model.attention_rows(at::zeros({2, 1, 8, 8}), 5), "token must be in [0, 5), got 5");
  EXPECT_EQ(model.forward(at::zeros({0, 1, 8, 8})).sizes(), (at::IntArrayRef{0, 2}));
}

TEST(ViT, PatchesAreNodesInRowMajorOrder) {
  ViTOptions options = ViTOptions::preset("pico");
  options.image_size = 6;
  options.patch_size = 2;
  options.channels = 2;
  options.classes = 2;
  options.depth = 1;
  options.variant = "linear";
  options.dropout = 0;
  ViT model(options);
  const at::NoGradGuard no_grad;
  // A change of patch (1, 2), node 5, shows in the rows of no other token's query: look at who is attended to.
  at::Tensor image = at::zeros({1, 2, 6, 6});
  const at::Tensor before = model.attention_rows(image, 0).squeeze();
  image.narrow(2, 2, 2).narrow(3, 4, 2).fill_(3);
  const at::Tensor change = (model.attention_rows(image, 0).squeeze() - before).abs().sum(0);
  EXPECT_EQ(change.argmax().item<int64_t>(), 6);  // CLS is token 0
}

TEST(ViT, DropoutActsInTrainingOnly) {
  ViTOptions options = ViTOptions::preset("pico");
  options.image_size = 8;
  options.channels = 1;
  options.classes = 2;
  options.variant = "softmax";
  options.dropout = 0.5;
  ViT model(options);
  const at::Tensor x = at::randn({2, 1, 8, 8});
  EXPECT_FALSE(at::equal(model.forward(x), model.forward(x)));
  model.eval();
  EXPECT_TRUE(at::equal(model.forward(x), model.forward(x)));
}

TEST(ViT, ParametersAreOfThreeKinds) {
  const at::Tensor matrix = at::zeros({2, 3}), vector = at::zeros({3});
  EXPECT_EQ(parameter_kind("block0.expand.weight", matrix), ParameterKind::matrix);
  EXPECT_EQ(parameter_kind("block0.expand.bias", vector), ParameterKind::vector);
  EXPECT_EQ(parameter_kind("encoder.last.weight", at::zeros({2, 3, 1, 1})), ParameterKind::matrix);
  EXPECT_EQ(parameter_kind("block0.attention_norm.weight", vector), ParameterKind::vector);
  EXPECT_EQ(parameter_kind("positions", matrix), ParameterKind::vector);
  EXPECT_EQ(parameter_kind("block0.attention.variant.mask.f", matrix), ParameterKind::mask);
}

TEST(MultiheadAttention, TakesAnyMaskAndLearnsItsParameters) {
  const at::Tensor alpha = at::tensor({1.0F, 0.5F}).requires_grad_();
  const auto source = std::make_shared<GivenMask>(power_series_mask(Graph::path(5).normalised(), alpha), 1);
  MultiheadAttention attention(8, 2, std::make_shared<KernelAttention>(source, FeatureMap::elu()));
  const at::Tensor out = attention.forward(at::randn({3, 6, 8}));
  ASSERT_EQ(out.sizes(), (at::IntArrayRef{3, 6, 8}));
  out.square().sum().backward();
  EXPECT_GT(alpha.grad().abs().sum().item<double>(), 0);
  EXPECT_TRUE(attention.named_parameters().contains("variant.mask.0"));
  EXPECT_ERROR(GivenMask(nullptr), "GivenMask: mask must be given, got none");
  EXPECT_ERROR(MultiheadAttention(8, 3, std::make_shared<SoftmaxAttention>()), "heads must divide width 8, got 3");
}

/// Queries, keys and values go through relu in one pass on a GPU; with a mask of one head and of several, and without.
TEST(MultiheadAttention, WithReluIsItsDefinitionOnEveryDevice) {
  const Graph graph = Graph::grid({3, 7}).to(at::kDouble).normalised();
  for (const at::Device device : testing::devices()) {
    for (const int64_t mask_heads : {0, 1, 3}) {
      at::manual_seed(4);
      const auto there = at::TensorOptions(device).dtype(at::kDouble);
      const at::Tensor alpha = at::rand({std::max<int64_t>(1, mask_heads), 4}).squeeze(0).to(there).requires_grad_();
      const MaskPtr mask = mask_heads == 0 ? none_mask(21) : power_series_mask(graph.to(device), alpha);
      MultiheadAttention attention(
          48, 3, std::make_shared<KernelAttention>(std::make_shared<GivenMask>(mask), FeatureMap::relu(0.05)));
      attention.to(device, at::kDouble);
      const at::Tensor x = at::randn({5, 21, 48}).to(there).requires_grad_(), cotangent = at::randn_like(x);
      const at::Tensor out = attention.forward(x);

      const auto named = attention.named_parameters();
      const at::Tensor qkv = at::linear(x, named["qkv.weight"], named["qkv.bias"]).unflatten(-1, {3, 3, 16});
      const auto parts = qkv.permute({2, 0, 3, 1, 4}).unbind(0);
      const at::Tensor weights =
          at::matmul(parts[0].relu() + 0.05, (parts[1].relu() + 0.05).mT()) * mask->dense().to(there);
      const at::Tensor expected =
          at::linear((at::matmul(weights, parts[2]) / weights.sum(-1, true)).transpose(1, 2).flatten(2),
                     named["projection.weight"], named["projection.bias"]);
      EXPECT_TRUE(testing::close(out, expected, 1e-11)) << device << ", " << mask_heads << " heads";
      std::vector<at::Tensor> inputs{x, named["qkv.weight"], named["qkv.bias"], named["projection.weight"]};
      if (mask_heads > 0) inputs.push_back(alpha);
      const auto actual = testing::gradients(out, cotangent, inputs),
                 wanted = testing::gradients(expected, cotangent, inputs);
      for (size_t i = 0; i < inputs.size(); ++i) {
        EXPECT_TRUE(testing::close(actual[i], wanted[i], 1e-11)) << device << ", " << mask_heads << " heads, " << i;
      }
    }
  }
}

}  // namespace
}  // namespace topomask
