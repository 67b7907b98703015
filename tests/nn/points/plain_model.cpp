// The encoder and the Interlacer against the formulas of docs/points.md, written with plain sums and loops.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "nn/points/testing.h"
#include "support/compare.h"

namespace topomask {
namespace {

using at::Tensor;
using testing::close;
using testing::gradients;

using Parameters = torch::OrderedDict<std::string, Tensor>;

void expect_same_with_gradients(const Tensor& out, const Tensor& expected, const std::vector<Tensor>& inputs) {
  EXPECT_TRUE(close(out, expected, 1e-10));
  const Tensor cotangent = at::randn_like(out);
  const auto actual = gradients(out, cotangent, inputs), wanted = gradients(expected, cotangent, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(close(actual[i], wanted[i], 1e-8, 1e-6)) << i;
}

/// The U-Net over one image [4, H, W].
class PlainEncoder {
 public:
  PlainEncoder(PixelEncoder& encoder, const PointModelOptions& options) : p_(encoder.named_parameters()), o_(options) {}

  Tensor forward(const Tensor& rgb, const Tensor& depth) {
    Tensor x = at::cat({rgb.permute({2, 0, 1}) * 2 - 1, depth.unsqueeze(0)});
    std::vector<Tensor> passed;
    for (int64_t l = 0; l < o_.encoder_levels; ++l) {
      x = level(l == 0 ? x : halved(x), "down" + std::to_string(l));
      passed.push_back(x);
    }
    for (int64_t l = o_.encoder_levels - 2; l >= 0; --l) {
      const Tensor row = at::arange(2 * x.size(1), at::kLong).div(2, "floor"),
                   column = at::arange(2 * x.size(2), at::kLong).div(2, "floor");
      x = level(at::cat({x.index_select(1, row).index_select(2, column), passed[static_cast<size_t>(l)]}),
                "up" + std::to_string(l));
    }
    const Tensor learnt = at::matmul(x.flatten(1).t(), p_["last.weight"].flatten(1).t()) + p_["last.bias"];
    if (!o_.colour_features) return learnt;
    const Tensor c = rgb.clamp(0.01, 0.99).view({-1, 3});
    return at::cat({(c / (1 - c)).log() / 4, learnt}, 1);
  }

 private:
  static Tensor halved(const Tensor& x) {
    Tensor sum = at::zeros({}, x.options());
    for (const int64_t row : {0, 1}) {
      for (const int64_t column : {0, 1}) {
        sum = sum + x.slice(1, row, std::nullopt, 2).slice(2, column, std::nullopt, 2) / 4;
      }
    }
    return sum;
  }

  Tensor level(const Tensor& x, const std::string& name) {
    return normalised(
               convolved(normalised(convolved(x, name + "_first"), name + "_first_norm").relu(), name + "_second"),
               name + "_second_norm")
        .relu();
  }

  Tensor convolved(const Tensor& x, const std::string& name) {
    const int64_t height = x.size(1), width = x.size(2);
    const Tensor padded = at::constant_pad_nd(x, {1, 1, 1, 1}), weight = p_[name + ".weight"];
    Tensor sum = p_[name + ".bias"].view({-1, 1, 1});
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t column = 0; column < 3; ++column) {
        const Tensor part = padded.narrow(1, row, height).narrow(2, column, width).flatten(1);
        sum = sum + at::matmul(weight.select(3, column).select(2, row), part).view({-1, height, width});
      }
    }
    return sum;
  }

  /// Groups of four channels have mean 0 and variance 1.
  Tensor normalised(const Tensor& x, const std::string& name) {
    const Tensor groups = x.view({x.size(0) / 4, -1}), centred = groups - groups.mean(1, true);
    const Tensor unit = (centred / (centred.square().mean(1, true) + 1e-5).sqrt()).view_as(x);
    return unit * p_[name + ".weight"].view({-1, 1, 1}) + p_[name + ".bias"].view({-1, 1, 1});
  }

  Parameters p_;
  PointModelOptions o_;
};

TEST(PixelEncoder, MatchesPlainSumsWithAllGradients) {
  for (const bool colours : {true, false}) {
    at::manual_seed(21);
    PointModelOptions options = testing::small_options();
    options.encoder_levels = 3;
    options.encoder_width = 8;
    options.colour_features = colours;
    PixelEncoder encoder(options);
    testing::shake(encoder);
    const Tensor rgb = at::rand({2, 8, 12, 3}, at::kDouble).requires_grad_(),
                 depth = at::rand({2, 8, 12}, at::kDouble).requires_grad_();
    PlainEncoder plain(encoder, options);
    std::vector<Tensor> inputs = encoder.parameters();
    inputs.push_back(rgb);
    inputs.push_back(depth);
    expect_same_with_gradients(encoder.forward(rgb, depth),
                               at::stack({plain.forward(rgb[0], depth[0]), plain.forward(rgb[1], depth[1])}), inputs);
  }
}

/// One step, a scene after the other. Local layers have references of their own (tests/nn/points/interlacer.cpp).
class PlainInterlacer {
 public:
  PlainInterlacer(Interlacer& model, const PointModelOptions& options)
      : p_(model.named_parameters()), modules_(model.named_modules()), o_(options) {}

  PointCloud forward(const PointCloud& before, const PointCloud& now, const Tensor& actions) {
    std::vector<Tensor> positions, features;
    for (int64_t b = 0; b < now.positions.size(0); ++b) {
      const PointCloud next =
          step({before.positions[b], before.features[b]}, {now.positions[b], now.features[b]}, actions[b]);
      positions.push_back(next.positions);
      features.push_back(next.features);
    }
    return {at::stack(positions), at::stack(features)};
  }

 private:
  PointCloud step(const PointCloud& before, const PointCloud& now, const Tensor& actions) {
    std::vector<Tensor> tokens, places, follow;
    const auto add = [&](const Tensor& place, const Tensor& own, int64_t time) {
      places.push_back(place);
      tokens.push_back(own + linear(waves(place), "embed_positions") + p_["times"][time]);
    };
    for (const int64_t instant : {0, 1}) {
      const PointCloud& cloud = instant == 0 ? before : now;
      for (int64_t n = 0; n < cloud.positions.size(0); ++n) {
        const Tensor around = of_the_arm(cloud.positions[n], actions[instant], actions[instant + 1]);
        add(cloud.positions[n], linear(cloud.features[n], "embed_features") + linear(around, "embed_context"), instant);
        if (instant == 1) follow.push_back(around.slice(0, 6, 9));  // ten times the weighted move
      }
    }
    for (int64_t t = 0; t < 3; ++t) {
      for (int64_t point = 0; point < actions.size(1); ++point) {
        const Tensor move = t == 0 ? at::zeros_like(actions[0][0]) : actions[t][point] - actions[t - 1][point];
        add(actions[t][point], linear(move, "embed_displacements"), 2 + t);
      }
    }
    Tensor x = at::stack(tokens);
    const Tensor where = at::stack(places);
    for (int64_t block = 0; block < o_.blocks; ++block) x = after(x, where, "block" + std::to_string(block));
    const Tensor change = linear(norm(x.narrow(0, before.positions.size(0), now.positions.size(0)), "norm"), "head");
    const Tensor pushed = 0.1 * change.slice(1, 0, 3) + 4 * p_["arm"] * at::stack(follow);
    return {now.positions + 0.25 * pushed.tanh(), now.features + 0.02 * change.slice(1, 3)};
  }

  Tensor after(const Tensor& x, const Tensor& places, const std::string& block) {
    const int64_t width = o_.width / o_.heads;
    const Tensor qkv = linear(norm(x, block + ".attention_norm"), block + ".qkv").view({-1, 3, o_.heads, width});
    std::vector<Tensor> heads;
    for (int64_t h = 0; h < o_.heads; ++h) {
      const auto part = [&](int64_t which) { return qkv.select(1, which).select(1, h); };
      const Tensor weights = at::matmul(part(0).relu() + o_.feature_offset, (part(1).relu() + o_.feature_offset).t());
      heads.push_back(at::matmul(weights / weights.sum(1, true), part(2)));
    }
    Tensor y = x + linear(at::cat(heads, 1), block + ".projection");
    if (o_.local != "none") {
      const auto local = std::dynamic_pointer_cast<LocalLayer>(modules_[block + ".local"]);
      LocalStructure structure{.positions = places.unsqueeze(0)};
      local->prepare(structure);
      y = y + local->forward(norm(y, block + ".local_norm").unsqueeze(0), structure)[0];
    }
    const Tensor hidden = linear(norm(y, block + ".perceptron_norm"), block + ".expand");
    return y + linear(hidden * 0.5 * (1 + at::erf(hidden / std::numbers::sqrt2)), block + ".contract");
  }

  /// What a particle knows of the nearest point of the arm: its offset, its next move, and that weighted by nearness.
  static Tensor of_the_arm(const Tensor& x, const Tensor& here, const Tensor& next) {
    const auto nearest = (here - x).square().sum(1).argmin().item<int64_t>();
    const Tensor offset = here[nearest] - x, move = next[nearest] - here[nearest];
    const Tensor weight = (-offset.square().sum() / (2 * 0.06 * 0.06)).exp();
    return at::cat({offset, 10 * move, 10 * weight * move, weight.unsqueeze(0)});
  }

  Tensor waves(const Tensor& x) const {
    std::vector<Tensor> parts{x};
    for (int64_t o = 0; o < o_.octaves; ++o) {
      const Tensor angle = x * (std::numbers::pi * std::pow(2.0, static_cast<double>(o)));
      parts.push_back(angle.sin());
      parts.push_back(angle.cos());
    }
    return at::cat(parts);
  }

  Tensor linear(const Tensor& x, const std::string& name) {
    return at::matmul(x, p_[name + ".weight"].t()) + p_[name + ".bias"];
  }
  Tensor norm(const Tensor& x, const std::string& name) {
    const Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * p_[name + ".weight"] + p_[name + ".bias"];
  }

  Parameters p_;
  torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>> modules_;
  PointModelOptions o_;
};

TEST(Interlacer, MatchesPlainFormulasWithAllGradients) {
  for (const std::string local : {"none", "message_passing"}) {
    at::manual_seed(22);
    const PointModelOptions options = testing::small_options(local);
    const auto model = std::make_shared<Interlacer>(options);
    testing::shake(*model);
    {
      const at::NoGradGuard no_grad;  // so that tanh is not linear
      model->named_parameters()["head.weight"].mul_(30);
    }
    PointCloud before = testing::random_cloud(2, 11, options.features),
               now = testing::random_cloud(2, 13, options.features);
    // Points of the arm lie among the first particles, which the weights then reach.
    Tensor actions = now.positions.narrow(1, 0, 5).unsqueeze(1) + 0.04 * at::randn({2, 3, 5, 3}, at::kDouble);
    std::vector<Tensor> inputs{before.positions, before.features, now.positions, now.features, actions};
    for (const Tensor& x : inputs) x.requires_grad_(true);
    const PointCloud out = model->forward(before, now, actions),
                     expected = PlainInterlacer(*model, options).forward(before, now, actions);
    EXPECT_GT((out.positions - now.positions).abs().max().item<double>(), 0.05) << local;
    const auto parameters = model->parameters();
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    expect_same_with_gradients(at::cat({out.positions, out.features}, 2),
                               at::cat({expected.positions, expected.features}, 2), inputs);
  }
}

}  // namespace
}  // namespace topomask
