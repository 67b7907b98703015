#include "topomask/nn/vivit.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "topomask/graph.h"
#include "topomask/nn/parameters.h"
#include "topomask/nn/variants.h"

namespace topomask {
namespace {

ViViTOptions tiny_vivit(const std::string& variant, const std::string& attention = "factorised") {
  ViViTOptions o;
  o.image_size = 6;
  o.channels = 2;
  o.classes = 3;
  o.patch_size = 2;
  o.width = 8;
  o.depth = 2;
  o.heads = 2;
  o.dropout = 0;
  o.variant = variant;
  o.walkers = 6;
  o.halting_probability = 0.3;
  o.hops = 4;
  o.frames = 8;
  o.tubelet = 2;
  o.attention = attention;
  o.temporal_depth = 1;
  return o;
}

at::Tensor clips_for(const ViViTOptions& o, int64_t batch = 2) {
  at::manual_seed(1);
  return at::randn({batch, o.frames, o.channels, o.image_size, o.image_size});
}

/// Weights and masks of the size that training gives them; at first masks are near 1.
void make_uneven(ViViT& model) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(3);
  for (auto& item : model.named_parameters()) {
    const bool mask = item.key().find(".mask.") != std::string::npos;
    const double size = item.key().ends_with(".mask.features") ? 0.02 : mask ? 0.1 : 0.3;
    item.value().add_(size * at::randn(item.value().sizes(), generator, item.value().options()));
  }
}

/// The model by plain products in the order of the papers, masks as dense matrices.
class PlainViViT {
 public:
  explicit PlainViViT(ViViT& model) : o_(model.options()), p_(model.named_parameters()), masks_(model.masks()) {}

  at::Tensor forward(const at::Tensor& clips) {
    const int64_t b = clips.size(0), t = o_.steps(), s = o_.grid(), p = o_.patch_size;
    std::vector<at::Tensor> tokens;  // one by one, in the order of time, rows and columns
    for (int64_t i = 0; i < t * s * s; ++i) {
      const at::Tensor cube =
          clips.narrow(1, i / (s * s) * o_.tubelet, o_.tubelet).narrow(3, i / s % s * p, p).narrow(4, i % s * p, p);
      tokens.push_back(linear(cube.reshape({b, -1}), "embedding"));
    }
    at::Tensor x = at::stack(tokens, 1);
    if (o_.joint()) return linear(encode(x, "joint", o_.depth, o_.variant), "head");
    std::vector<at::Tensor> steps;
    for (int64_t i = 0; i < t; ++i) {
      next_mask_ = 0;  // the same masks for every step
      steps.push_back(encode(x.narrow(1, i * s * s, s * s), "spatial", o_.depth, o_.variant));
    }
    return linear(encode(at::stack(steps, 1), "temporal", o_.temporal_depth, o_.temporal_variant), "head");
  }

 private:
  at::Tensor linear(const at::Tensor& y, const std::string& name) {
    return at::matmul(y, p_[name + ".weight"].mT()) + p_[name + ".bias"];
  }
  at::Tensor norm(const at::Tensor& y, const std::string& name) {
    const at::Tensor centred = y - y.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * p_[name + ".weight"] + p_[name + ".bias"];
  }

  at::Tensor encode(at::Tensor x, const std::string& name, int64_t depth, const std::string& variant) {
    if (o_.cls_token) x = at::cat({p_[name + ".cls"].expand({x.size(0), 1, -1}), x}, 1);
    x = x + p_[name + ".positions"];
    for (int64_t layer = 0; layer < depth; ++layer) {
      x = block(x, name + ".block" + std::to_string(layer) + ".", variant);
    }
    x = norm(x, name + ".norm");
    return o_.cls_token ? x.select(1, 0) : x.mean(1);
  }

  at::Tensor block(const at::Tensor& x, const std::string& name, const std::string& variant) {
    const int64_t width = o_.head_dim();
    const at::Tensor qkv = linear(norm(x, name + "attention_norm"), name + "attention.qkv");
    const auto heads = qkv.unflatten(-1, {3, o_.heads, width}).permute({2, 0, 3, 1, 4}).unbind(0);
    const at::Tensor &q = heads[0], &k = heads[1], &v = heads[2];
    const bool masked = variant != "softmax" && variant != "linear";
    const at::Tensor mask = masked ? masks_.at(next_mask_++)->dense() : at::Tensor();
    at::Tensor matrix;
    if (variant.starts_with("softmax")) {
      const at::Tensor scores = at::matmul(q, k.mT()) / std::sqrt(static_cast<double>(width));
      matrix = at::softmax(masked ? scores + mask : scores, -1);
    } else {
      at::Tensor weights = at::matmul(q.relu() + o_.feature_offset, (k.relu() + o_.feature_offset).mT());
      if (masked) weights = weights * mask;
      matrix = weights / weights.sum(-1, true);
    }
    const at::Tensor y = x + linear(at::matmul(matrix, v).transpose(1, 2).flatten(2), name + "attention.projection");
    return y + linear(at::gelu(linear(norm(y, name + "perceptron_norm"), name + "expand")), name + "contract");
  }

  ViViTOptions o_;
  torch::OrderedDict<std::string, at::Tensor> p_;
  std::vector<MaskPtr> masks_;
  size_t next_mask_ = 0;
};

void expect_as_plain(const ViViTOptions& options) {
  SCOPED_TRACE(options.variant + " " + options.attention + (options.cls_token ? "" : " without CLS"));
  ViViT model(options, 5);
  make_uneven(model);
  model.to(at::kDouble);
  const at::Tensor clips = clips_for(options).to(at::kDouble);
  const at::Tensor logits = model.forward(clips), expected = PlainViViT(model).forward(clips);
  EXPECT_TRUE(testing::close(logits, expected, 1e-9));
  std::vector<at::Tensor> weights;
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters()) {
    if (parameter_kind(item.key(), item.value()) == ParameterKind::mask) continue;
    weights.push_back(item.value());
    names.push_back(item.key());
  }
  const at::Tensor cotangent = at::randn_like(logits);
  const auto actual = testing::gradients(logits, cotangent, weights);
  const auto wanted = testing::gradients(expected, cotangent, weights);
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_TRUE(testing::close(actual[i], wanted[i], 1e-8, 1e-6)) << names[i];
  }
}

class VideoVariants : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, VideoVariants, ::testing::ValuesIn(variant_names()),
                         [](const auto& test) { return test.param; });

TEST_P(VideoVariants, LogitsAndGradientsAreThoseOfPlainProducts) {
  for (const char* attention : {"factorised", "joint"}) {
    for (const bool cls : {true, false}) {
      ViViTOptions options = tiny_vivit(GetParam(), attention);
      options.cls_token = cls;
      expect_as_plain(options);
    }
  }
}

TEST_P(VideoVariants, EveryParameterLearns) {
  for (const char* attention : {"factorised", "joint"}) {
    ViViTOptions options = tiny_vivit(GetParam(), attention);
    options.cls_token = false;  // with CLS, the mask of the last layer has nothing to do
    options.temporal_variant = GetParam();
    ViViT model(options, 5);
    at::cross_entropy_loss(model.forward(clips_for(options)), at::tensor({0, 2}, at::kLong)).backward();
    for (const auto& item : model.named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
      EXPECT_GT(item.value().grad().abs().sum().item<double>(), 0) << item.key() << " " << attention;
    }
  }
}

TEST(ViViT, AFactorisedModelEncodesStepsOneByOne) {
  for (const char* variant : {"softmax_grf", "grf"}) {
    const ViViTOptions options = tiny_vivit(variant);
    ViViT model(options, 5);
    make_uneven(model);
    model.to(at::kDouble);
    const at::Tensor clips = clips_for(options).to(at::kDouble), together = model.encode_steps(clips);
    ASSERT_EQ(together.sizes(), (at::IntArrayRef{2, 4, 8}));
    for (int64_t step = 0; step < 4; ++step) {
      // The step's frames everywhere: what a step becomes depends on its own frames alone.
      const at::Tensor alone = clips.narrow(1, 2 * step, 2).repeat({1, 4, 1, 1, 1});
      EXPECT_TRUE(testing::close(model.encode_steps(alone).select(1, 0), together.select(1, step), 1e-10)) << step;
    }
  }
  ViViT joint(tiny_vivit("grf", "joint"));
  EXPECT_ERROR(joint.encode_steps(clips_for(joint.options())), "attention must be factorised, got joint");
}

/// W_ij = 1/√(d_i d_j) of a grid, from coordinates.
at::Tensor grid_weights(const std::vector<int64_t>& axes) {
  int64_t n = 1;
  for (const int64_t side : axes) n *= side;
  at::Tensor w = at::zeros({n, n}, at::kDouble);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      int64_t distance = 0, a = i, b = j;
      for (size_t axis = axes.size(); axis-- > 0; a /= axes[axis], b /= axes[axis]) {
        distance += std::abs(a % axes[axis] - b % axes[axis]);
      }
      if (distance == 1) w[i][j] = 1;
    }
  }
  const at::Tensor degrees = w.sum(1).sqrt();
  return w / degrees.unsqueeze(0) / degrees.unsqueeze(1);
}

TEST(ViViT, MasksAreOverTheGridsOfSpaceTimeAndBoth) {
  const auto expect_series = [](const MaskPtr& mask, const at::Tensor& alpha, const std::vector<int64_t>& axes) {
    const at::Tensor w = grid_weights(axes);
    const int64_t n = w.size(0);
    for (int64_t head = 0; head < 2; ++head) {
      at::Tensor power = at::eye(n, at::kDouble), sum = at::zeros({n, n}, at::kDouble);
      for (int64_t k = 0; k < alpha.size(1); ++k, power = power.mm(w)) sum += alpha[head][k] * power;
      const at::Tensor found = mask->dense()[head];
      ASSERT_EQ(found.size(0), n + 1);
      EXPECT_TRUE(testing::close(found.slice(0, 1).slice(1, 1), sum, 1e-6));  // weights of a graph are float32
      EXPECT_TRUE(at::equal(found[0], at::ones({n + 1}, at::kDouble)));
    }
  };
  for (const char* attention : {"factorised", "joint"}) {
    ViViTOptions options = tiny_vivit("exact", attention);
    options.temporal_variant = "exact";
    ViViT model(options, 5);
    make_uneven(model);
    model.to(at::kDouble);
    const at::NoGradGuard no_grad;
    const auto masks = model.masks();
    const at::Tensor alpha = model.modulation();
    if (options.joint()) {
      ASSERT_EQ(masks.size(), 2u);
      for (size_t l = 0; l < 2; ++l) expect_series(masks[l], alpha[static_cast<int64_t>(l)], {4, 3, 3});
    } else {
      ASSERT_EQ(masks.size(), 3u);
      expect_series(masks[0], alpha[0], {3, 3});
      expect_series(masks[2], alpha[2], {4});
    }
  }
}

TEST(ViViT, SeedsDecideWeightsAndWalks) {
  const ViViTOptions options = tiny_vivit("softmax_grf", "joint");
  const at::Tensor clips = clips_for(options);
  EXPECT_TRUE(at::equal(ViViT(options, 5).forward(clips), ViViT(options, 5).forward(clips)));
  EXPECT_FALSE(at::equal(ViViT(options, 5).forward(clips), ViViT(options, 6).forward(clips)));
}

TEST(ViViT, WhatDoesNotFitIsRefused) {
  ViViTOptions options = tiny_vivit("grf");
  ViViT model(options);
  EXPECT_ERROR(model.forward(at::zeros({2, 7, 2, 6, 6})),
               "clips must be Float [B, 8, 2, 6, 6], got Float[2, 7, 2, 6, 6]");
  EXPECT_EQ(model.forward(at::zeros({0, 8, 2, 6, 6})).sizes(), (at::IntArrayRef{0, 3}));
  options.tubelet = 3;
  EXPECT_ERROR(ViViT{options}, "ViViT: tubelet must divide frames 8, got 3");
  options.tubelet = 0;
  EXPECT_ERROR(ViViT{options}, "ViViT: tubelet must be from 1 to 65536, got 0");
  options = tiny_vivit("grf", "divided");
  EXPECT_ERROR(ViViT{options}, "ViViT: attention must be factorised or joint, got divided");
  options = tiny_vivit("grf");
  options.temporal_variant = "none";
  EXPECT_ERROR(ViViT{options}, "ViViT: temporal_variant must be one of ad_hoc, centrality");
  options = tiny_vivit("grf");
  options.frames = 0;
  EXPECT_ERROR(ViViT{options}, "ViViT: frames must be >= 1, got 0");
}

}  // namespace
}  // namespace topomask
