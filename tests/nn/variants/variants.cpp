#include "topomask/nn/variants.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/devices.h"
#include "support/mask_contract.h"
#include "support/parameter_changes.h"
#include "tasks/autocast.h"
#include "topomask/nn/vit.h"

namespace topomask {
namespace {

ViTOptions small(const std::string& variant) {
  ViTOptions options;
  options.image_size = 10;
  options.channels = 1;
  options.classes = 3;
  options.patch_size = 2;
  options.width = 12;
  options.depth = 2;
  options.heads = 3;
  options.dropout = 0;
  options.variant = variant;
  options.walkers = 6;
  options.halting_probability = 0.3;
  options.hops = 4;
  return options;
}

at::Tensor images(const ViTOptions& o, int64_t batch = 2) {
  at::manual_seed(1);
  return at::randn({batch, o.channels, o.image_size, o.image_size});
}

class Variants : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Variants, ::testing::ValuesIn(variant_names()),
                         [](const auto& test) { return test.param; });

TEST(Variant, EveryOneOfThePaperIsThere) {
  EXPECT_EQ(variant_names(), (std::vector<std::string>{"ad_hoc", "centrality", "diffusion", "exact", "free", "grf",
                                                       "linear", "softmax", "softmax_grf", "spe", "toeplitz"}));
}

TEST_P(Variants, GivesLogitsAndAGradientToEveryParameter) {
  for (const bool cls : {true, false}) {
    ViTOptions options = small(GetParam());
    options.cls_token = cls;
    ViT model(options, 5);
    const at::Tensor logits = model.forward(images(options));
    ASSERT_EQ(logits.sizes(), (at::IntArrayRef{2, 3}));
    EXPECT_TRUE(logits.isfinite().all().item<bool>());
    at::cross_entropy_loss(logits, at::tensor({0, 2}, at::kLong)).backward();
    for (const auto& item : model.named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
      // Only CLS of the last layer is used, and its row of the mask is 1.
      if (cls && item.key().starts_with("block1.attention.variant.mask.")) continue;
      EXPECT_GT(item.value().grad().abs().sum().item<double>(), 0) << item.key() << (cls ? "" : ", no CLS");
    }
  }
}

/// x after a block and the matrix its heads attend by, [B, H, T, T], by plain products in the order of the papers.
std::pair<at::Tensor, at::Tensor> dense_block(ViT& model, int64_t layer, const at::Tensor& x) {
  const auto p = model.named_parameters();
  const std::string block = "block" + std::to_string(layer) + ".";
  const auto linear = [&](const at::Tensor& y, const std::string& name) {
    return at::matmul(y, p[block + name + ".weight"].mT()) + p[block + name + ".bias"];
  };
  const auto norm = [&](const at::Tensor& y, const std::string& name) {
    const at::Tensor centred = y - y.mean(-1, true);
    const at::Tensor unit = centred / (centred.square().mean(-1, true) + 1e-5).sqrt();
    return unit * p[block + name + ".weight"] + p[block + name + ".bias"];
  };
  const int64_t heads = model.options().heads, width = model.options().width / heads;
  const at::Tensor qkv = linear(norm(x, "attention_norm"), "attention.qkv").unflatten(-1, {3, heads, width});
  const at::Tensor q = qkv.select(2, 0).transpose(1, 2), k = qkv.select(2, 1).transpose(1, 2),
                   v = qkv.select(2, 2).transpose(1, 2);
  const auto masks = model.masks();
  const at::Tensor mask = masks.empty() ? at::Tensor() : masks[static_cast<size_t>(layer)]->dense();
  at::Tensor matrix;
  if (model.options().variant.starts_with("softmax")) {
    const at::Tensor scores = at::matmul(q, k.mT()) / std::sqrt(static_cast<double>(width));
    matrix = at::softmax(mask.defined() ? scores + mask : scores, -1);
  } else {
    const double offset = model.options().feature_offset;
    at::Tensor weights = at::matmul(q.relu() + offset, (k.relu() + offset).mT());
    if (mask.defined()) weights = weights * mask;
    matrix = weights / weights.sum(-1, true);
  }
  const at::Tensor attended = x + linear(at::matmul(matrix, v).transpose(1, 2).flatten(2), "attention.projection");
  return {attended + linear(at::gelu(linear(norm(attended, "perceptron_norm"), "expand")), "contract"), matrix};
}

/// A model whose weights, masks and logits are of the size that training gives them: at first masks are near 1 and
/// logits near 0, where wrong ones would not show.
void perturb(ViT& model) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(3);
  for (auto& item : model.named_parameters()) {
    const bool free = item.key().ends_with(".mask.features");  // which are small, and whose products must stay positive
    const double size = free ? 0.02 : item.key().find(".mask.") != std::string::npos ? 0.1 : 0.3;
    item.value().add_(size * at::randn(item.value().sizes(), generator, item.value().options()));
  }
}

TEST_P(Variants, AttentionRowsAreThoseOfTheDenseMatrix) {
  const ViTOptions options = small(GetParam());
  ViT model(options, 5);
  perturb(model);
  model.to(at::kDouble);
  const at::Tensor x = images(options).to(at::kDouble);
  const auto p = model.named_parameters();
  const at::Tensor patches = x.reshape({2, 1, 5, 2, 5, 2}).permute({0, 2, 4, 1, 3, 5}).reshape({2, 25, 4});
  const at::Tensor embedded = at::matmul(patches, p["embedding.weight"].mT()) + p["embedding.bias"];
  at::Tensor tokens = at::cat({p["cls"].expand({2, 1, -1}), embedded}, 1) + p["positions"];
  std::vector<at::Tensor> matrices;
  for (int64_t layer = 0; layer < 2; ++layer) {
    auto [after, matrix] = dense_block(model, layer, tokens);
    tokens = after;
    matrices.push_back(matrix);
  }
  EXPECT_GT(at::stack(matrices).std(-1).mean().item<double>(), 0.005);  // rows far from constant
  for (const int64_t token : {0, 3, 25}) {
    const at::Tensor rows = model.attention_rows(x, token);
    ASSERT_EQ(rows.sizes(), (at::IntArrayRef{2, 2, 3, 26}));
    EXPECT_TRUE(testing::close(rows, at::stack(matrices).select(-2, token), 1e-9)) << "token " << token;
  }
}

TEST_P(Variants, MasksCoverEveryTokenOfEveryLayer) {
  const ViTOptions options = small(GetParam());
  ViT model(options, 5);
  const bool masked = GetParam() != "softmax" && GetParam() != "linear";
  const auto masks = model.masks();
  ASSERT_EQ(masks.size(), masked ? 2 : 0);
  for (const MaskPtr& mask : masks) {
    EXPECT_EQ(mask->size(), 26);
    EXPECT_EQ(mask->heads(), 3);
    EXPECT_TRUE(at::equal(mask->dense().select(-2, 0), at::ones({3, 26})));  // CLS sees all
  }
}

TEST_P(Variants, TheSameSeedIsTheSameModel) {
  const ViTOptions options = small(GetParam());
  const at::Tensor x = images(options);
  EXPECT_TRUE(at::equal(ViT(options, 5).forward(x), ViT(options, 5).forward(x)));
  EXPECT_FALSE(at::equal(ViT(options, 5).forward(x), ViT(options, 6).forward(x)));
}

TEST_P(Variants, FollowTheirParametersHoweverTheyAreWritten) {
  const ViTOptions options = small(GetParam());
  for (const at::Device device : testing::devices()) {
    SCOPED_TRACE("on " + device.str());
    for (const testing::ParameterChange& change : testing::parameter_changes()) {
      if (!device.is_cpu() && !change.on_cuda) continue;
      const at::Tensor x = images(options).to(device);
      ViT changed(options, 5), fresh(options, 5);
      for (ViT* model : {&changed, &fresh}) model->to(device);
      const auto evaluated = [&](ViT& model) {
        const at::NoGradGuard no_grad;
        return model.forward(x);
      };
      evaluated(changed);  // masks are made, and cached
      for (ViT* model : {&changed, &fresh}) {
        for (at::Tensor& p : model->parameters()) change.write(p);
      }
      EXPECT_TRUE(at::equal(evaluated(changed), evaluated(fresh))) << change.name;
    }
  }
}

TEST_P(Variants, LearnTheirMaskAfterAnEvaluation) {
  ViTOptions options = small(GetParam());
  options.cls_token = false;
  const at::Tensor x = images(options);
  const auto gradients_of = [&](ViT& model) {
    at::cross_entropy_loss(model.forward(x), at::tensor({0, 2}, at::kLong)).backward();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& p : model.parameters()) gradients.push_back(p.grad());
    return gradients;
  };
  ViT model(options, 5), other(options, 5);
  {
    const at::NoGradGuard no_grad;
    const FrozenMasks frozen(model);
    EXPECT_TRUE(at::allclose(model.forward(x), other.forward(x), 1e-4, 1e-5));
  }
  ViT fresh(options, 5);
  const auto expected = gradients_of(fresh);
  for (ViT* evaluated : {&model, &other}) {
    const auto actual = gradients_of(*evaluated);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(actual[i].defined()) << model.named_parameters().keys()[i];
      EXPECT_TRUE(testing::close(actual[i], expected[i], 1e-3, 1e-6)) << model.named_parameters().keys()[i];
    }
  }
}

TEST_P(Variants, FrozenMasksAreReleased) {
  const ViTOptions options = small(GetParam());
  const at::Tensor x = images(options);
  ViT model(options, 5), fresh(options, 5);
  const at::NoGradGuard no_grad;
  std::vector<MaskPtr> during;
  {
    const FrozenMasks frozen(model);
    during = model.masks();
    for (const MaskPtr& mask : during) EXPECT_TRUE(mask->parameters().empty());
    model.forward(x);
  }
  for (ViT* changed : {&model, &fresh}) {
    for (at::Tensor& p : changed->parameters()) p.variable_data().mul_(0.5);
  }
  EXPECT_TRUE(at::equal(model.forward(x), fresh.forward(x)));
  for (size_t layer = 0; layer < during.size(); ++layer) EXPECT_NE(model.masks()[layer], during[layer]);
}

TEST_P(Variants, TakeBfloat16ByAutocast) {
  ViTOptions options = small(GetParam());
  options.features = "elu";  // smooth: rounding can switch the slope of a ReLU on and off
  ViT model(options, 5);
  perturb(model);
  const at::Tensor x = images(options), classes = at::tensor({0, 2}, at::kLong), exact = model.forward(x);
  const auto gradient_of = [&](const at::Tensor& logits) {
    std::vector<at::Tensor> all;
    for (const at::Tensor& g :
         testing::gradients(at::cross_entropy_loss(logits.to(at::kFloat), classes), at::ones({}), model.parameters())) {
      all.push_back(g.flatten());
    }
    return at::cat(all);
  };
  at::Tensor logits;
  {
    const Autocast autocast(at::kCPU, "bfloat16");
    logits = model.forward(x);
  }
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  // A bfloat16 is rounded by 2⁻⁹ at most. Some twenty roundings follow one another in two blocks; errors of products
  // average out, and each weighs as much as what it is added to. The backward pass has twice as many.
  constexpr double kRounding = 1.0 / 512;
  EXPECT_GT(exact.abs().max().item<double>(), 0.5);
  EXPECT_TRUE(testing::close(logits, exact, 20 * kRounding)) << logits << exact;
  const at::Tensor expected = gradient_of(exact), actual = gradient_of(logits);
  EXPECT_LT(((actual - expected).norm() / expected.norm()).item<double>(), 60 * kRounding);
}

TEST(Variant, GrfIsDenseAttentionUnderItsMask) {
  for (const bool per_head : {true, false}) {
    ViTOptions options = small("grf");
    options.depth = 1;
    options.per_head_walks = per_head;
    ViT model(options, 3);
    const auto modules = model.named_modules("", /*include_self=*/false);
    auto variant = std::dynamic_pointer_cast<AttentionVariant>(modules["block0.attention.variant"]);
    ASSERT_TRUE(variant);
    const at::Tensor q = at::randn({2, 3, 26, 4}), k = at::randn_like(q), v = at::randn_like(q);
    const at::Tensor scores = at::matmul(q.relu() + 1e-3, (k.relu() + 1e-3).mT()) * variant->mask()->dense();
    const at::Tensor expected = at::matmul(scores, v) / scores.sum(-1, true);
    EXPECT_TRUE(at::allclose(variant->forward(q, k, v), expected, 1e-4, 1e-5));
  }
}

TEST(Variant, WalksDifferBetweenLayersAndHeadsWhereAsked) {
  ViTOptions options = small("grf");
  options.cls_token = false;
  const auto dense = [&](bool per_layer, bool per_head) {
    options.per_layer_walks = per_layer;
    options.per_head_walks = per_head;
    ViT model(options, 3);
    const auto masks = model.masks();
    return at::stack({masks[0]->dense(), masks[1]->dense()}).detach();
  };
  const at::Tensor all = dense(true, true), layers = dense(true, false), heads = dense(false, true),
                   one = dense(false, false);
  EXPECT_FALSE(at::allclose(all[0][0], all[0][1]));
  EXPECT_FALSE(at::allclose(all[0], all[1]));
  EXPECT_TRUE(at::allclose(layers[0][0], layers[0][1]));
  EXPECT_FALSE(at::allclose(layers[0], layers[1]));
  EXPECT_FALSE(at::allclose(heads[0][0], heads[0][1]));
  EXPECT_TRUE(at::allclose(heads[0], heads[1]));
  EXPECT_TRUE(at::allclose(one[0][0], one[1][2]));
}

TEST(Variant, ModulationBeginsAsAnExponential) {
  for (const std::string variant : {"grf", "ad_hoc", "exact", "softmax_grf"}) {
    const at::Tensor f = ViT(small(variant)).modulation();
    ASSERT_EQ(f.sizes(), (at::IntArrayRef{2, 3, 5}));
    EXPECT_TRUE(at::allclose(f[1][2], at::exp(at::arange(5) * -0.01)));
  }
  EXPECT_FALSE(ViT(small("toeplitz")).modulation().defined());
  EXPECT_FALSE(ViT(small("softmax")).modulation().defined());
}

TEST(Variant, FeaturesAreTakenByName) {
  const at::Tensor q = testing::normal({2, 3, 26, 4}, 1), k = testing::normal({2, 3, 26, 4}, 2);
  const at::Tensor v = testing::normal({2, 3, 26, 4}, 3);
  const std::vector<std::pair<std::string, FeatureMap>> maps{
      {"relu", FeatureMap::relu(1e-3)},
      {"elu", FeatureMap::elu()},
      {"elu1", FeatureMap::elu()},  // its former name
      {"favor", FeatureMap::favor(4, 4, {.seed = 3, .stabilised = true})}};
  for (const auto& [name, map] : maps) {
    EXPECT_EQ(map.name(), name == "elu1" ? "elu" : name);
    ViTOptions options = small("grf");
    options.depth = 1;
    options.features = name;
    ViT model(options, 3);
    model.to(at::kDouble);
    const auto modules = model.named_modules("", /*include_self=*/false);
    auto variant = std::dynamic_pointer_cast<AttentionVariant>(modules["block0.attention.variant"]);
    ASSERT_TRUE(variant);
    const at::Tensor weights = at::matmul(map.queries(q), map.keys(k).mT()) * variant->mask()->dense();
    const at::Tensor expected = at::matmul(weights / weights.sum(-1, true), v);
    EXPECT_TRUE(testing::close(variant->forward(q, k, v), expected, 1e-6)) << name;
  }
}

TEST(Variant, WrongOptionsAreRefused) {
  const auto with = [](auto change) {
    ViTOptions options = small("grf");
    change(options);
    ViT model(options);
  };
  EXPECT_ERROR(with([](auto& o) { o.variant = "soft"; }), "toeplitz, got soft");
  EXPECT_ERROR(with([](auto& o) { o.features = "tanh"; }), "features must be relu, elu or favor, got tanh");
  EXPECT_ERROR(with([](auto& o) { o.sampler = "best"; }), "antithetic_repelling, got best");
  EXPECT_ERROR(with([](auto& o) { o.patch_size = 3; }), "patch_size must divide image_size 10, got 3");
  EXPECT_ERROR(with([](auto& o) { o.heads = 5; }), "heads must divide width 12, got 5");
  EXPECT_ERROR(with([](auto& o) { o.dropout = 1; }), "dropout must be in [0, 1), got 1");
  EXPECT_ERROR(with([](auto& o) { o.mlp_ratio = 0; }), "mlp_ratio must be > 0, got 0");
  EXPECT_ERROR(with([](auto& o) { o.hops = -1; }), "hops must be >= 0, got -1");
  EXPECT_ERROR(with([](auto& o) { o.depth = -1; }), "depth must be >= 0, got -1");
  EXPECT_ERROR(with([](auto& o) { o.classes = 0; }), "classes must be >= 1, got 0");
  EXPECT_ERROR(with([](auto& o) { o.variant = "diffusion", o.diffusion_time = 0; }),
               "diffusion_time must be > 0, got 0");
}

}  // namespace
}  // namespace topomask
