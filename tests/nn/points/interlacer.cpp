#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "masks/grf/grf_testing.h"
#include "nn/points/checkpoint.h"
#include "nn/points/testing.h"
#include "support/compare.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

using at::Tensor;
using testing::close;
using testing::gradients;

const std::vector<std::string> kLayers{"none",  "unmasked",   "message_passing", "grf",
                                       "exact", "neighbours", "diffusion"};

TEST(LocalLayer, NamesAreThoseOfTheOptions) {
  std::vector<std::string> sorted = kLayers;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(local_layer_names(), sorted);
  EXPECT_EQ(make_local_layer(testing::small_options("none")), nullptr);
  EXPECT_ERROR(make_local_layer(testing::small_options("nearby")), "local must be one of diffusion, exact, grf");
}

/// D⁻¹(M ⊙ φ(Q)φ(K)ᵀ)V with the layer's own weights.
Tensor dense_layer(LocalLayer& layer, const Tensor& x, const Tensor& mask, const PointModelOptions& options) {
  const auto p = layer.named_parameters();
  const auto linear = [&](const std::string& name, const Tensor& of) {
    return at::matmul(of, p[name + ".weight"].t()) + p[name + ".bias"];
  };
  const int64_t m = options.local_features;
  const Tensor qkv = linear("qkv", x.flatten(0, 1)), features = qkv.narrow(1, 0, 2 * m).relu() + options.feature_offset;
  const Tensor weights = mask * at::matmul(features.narrow(1, 0, m), features.narrow(1, m, m).t());
  const Tensor out = at::matmul(weights, qkv.narrow(1, 2 * m, options.width)) / weights.sum(1, true);
  return linear("projection", out).view_as(x);
}

void copy_values(const LocalLayer& from, const LocalLayer& to) {
  const at::NoGradGuard no_grad;
  const auto source = from.parameters(), target = to.parameters();
  for (size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
}

/// The mask that a layer should have, [B·M, B·M].
Tensor dense_mask_of(const std::string& local, const Tensor& positions, const Tensor& f, int64_t k) {
  const int64_t clouds = positions.size(0), tokens = positions.size(1);
  const Tensor neighbours = cloud_neighbours(positions, k);
  Tensor a = at::zeros({clouds, tokens, tokens}, at::kDouble).scatter(2, neighbours.to(at::kLong), 1);
  const Tensor same =
      at::block_diag(std::vector<Tensor>(static_cast<size_t>(clouds), at::ones({tokens, tokens}, at::kDouble)));
  if (local == "unmasked") return same;
  if (local == "exact" || local == "diffusion") a = at::maximum(a, a.mT());
  const Tensor degree = a.sum(2);
  const Tensor w = at::block_diag((a / (degree.unsqueeze(2) * degree.unsqueeze(1)).sqrt()).unbind());
  const Tensor eye = at::eye(clouds * tokens, at::kDouble);
  if (local == "diffusion") return at::matrix_exp(-f.exp() * (eye - w));
  Tensor power = eye, sum = at::zeros_like(eye);
  for (int64_t t = 0; t < f.size(0); ++t, power = at::matmul(power, w)) sum = sum + f[t] * power;
  return sum;
}

TEST(LocalLayer, MasksMatchTheDenseReferenceWithAllGradients) {
  for (const char* local : {"unmasked", "grf", "exact", "neighbours", "diffusion"}) {
    at::manual_seed(3);
    const PointModelOptions options = testing::small_options(local);
    const auto layer = make_local_layer(options);
    testing::shake(*layer, at::kFloat);  // graphs have weights in float32
    LocalStructure structure{.positions = at::rand({2, 31, 3})};
    layer->prepare(structure);
    const Tensor x = at::randn({2, 31, options.width}).requires_grad_(true), out = layer->forward(x, structure);
    std::vector<Tensor> inputs = layer->parameters(), wide;
    inputs.push_back(x);
    // The reference is the same layer in double.
    const auto reference = make_local_layer(options);
    reference->to(at::kDouble);
    copy_values(*layer, *reference);
    wide = reference->parameters();
    wide.push_back(x.detach().to(at::kDouble).requires_grad_(true));
    const Tensor f = reference->named_parameters()["mask.f"];
    const Tensor mask = dense_mask_of(local, structure.positions, f, options.neighbours);
    const Tensor expected = dense_layer(*reference, wide.back(), mask, options);
    const double tolerance = std::string(local) == "diffusion" ? 2e-3 : 2e-5;
    EXPECT_TRUE(close(out, expected, tolerance)) << local;
    const Tensor cotangent = at::randn_like(out);
    const auto actual = gradients(out, cotangent, inputs),
               wanted = gradients(expected, cotangent.to(at::kDouble), wide);
    for (size_t i = 0; i < actual.size(); ++i)
      EXPECT_TRUE(close(actual[i], wanted[i], 10 * tolerance, 1e-3)) << local << i;
  }
}

TEST(LocalLayer, GrfSamplesWalksWhereTheyDoNotTakeEveryPath) {
  PointModelOptions options = testing::small_options("grf");
  const Tensor x = at::randn({2, 40, options.width}), positions = at::rand({2, 40, 3});
  options.walkers = 9;
  const auto layer = make_local_layer(options);
  LocalStructure sampled{.positions = positions};
  layer->prepare(sampled);
  ASSERT_TRUE(sampled.table.has_value());
  EXPECT_EQ(sampled.table->walkers(), 9);
  const Tensor out = layer->forward(x, sampled);
  const auto reference = make_local_layer(options);
  reference->to(at::kDouble);
  copy_values(*layer, *reference);
  const Tensor f = reference->named_parameters()["mask.f"];
  const Tensor expected =
      dense_layer(*reference, x.to(at::kDouble), testing::dense_features(*sampled.table, f), options);
  EXPECT_TRUE(close(out, expected, 2e-5));
  // No walk leads from one cloud to another.
  const Tensor other = at::cat({x.slice(0, 0, 1), at::randn({1, 40, options.width})});
  EXPECT_TRUE(at::equal(layer->forward(other, sampled)[0], out[0]));
}

TEST(LocalLayer, MessagesMatchALoop) {
  at::manual_seed(4);
  const PointModelOptions options = testing::small_options("message_passing");
  const auto layer = make_local_layer(options);
  testing::shake(*layer);
  const int64_t clouds = 2, tokens = 14, k = options.message_neighbours;
  const Tensor positions = at::rand({clouds, tokens, 3}, at::kDouble).requires_grad_(true),
               x = at::randn({clouds, tokens, options.width}, at::kDouble).requires_grad_(true);
  LocalStructure structure{.positions = positions};
  layer->prepare(structure);
  const Tensor out = layer->forward(x, structure);
  const auto p = layer->named_parameters();
  const auto linear = [&](const std::string& name, const Tensor& of) {
    return at::matmul(of, p[name + ".weight"].t()) + p[name + ".bias"];
  };
  std::vector<Tensor> rows;
  for (int64_t b = 0; b < clouds; ++b) {
    std::vector<Tensor> anchors, places;
    for (int64_t a = 0; a < tokens; a += options.anchor_stride) {
      const Tensor order = (positions[b] - positions[b][a]).square().sum(1).argsort();
      Tensor sum = at::zeros({options.width}, at::kDouble);
      for (int64_t n = 0; n < k; ++n) {
        const int64_t j = order[n].item<int64_t>();
        sum = sum + (linear("gather_sender", x[b][j]) + linear("gather_receiver", x[b][a]) +
                     linear("gather_place", positions[b][j] - positions[b][a]))
                        .relu();
      }
      anchors.push_back(x[b][a] + linear("gather_out", sum / static_cast<double>(k)));
      places.push_back(positions[b][a]);
    }
    for (int64_t i = 0; i < tokens; ++i) {
      const int64_t near = (at::stack(places) - positions[b][i]).square().sum(1).argmin().item<int64_t>();
      const auto at = static_cast<size_t>(near);
      rows.push_back(linear("spread_out", (linear("spread_sender", anchors[at]) + linear("spread_receiver", x[b][i]) +
                                           linear("spread_place", positions[b][i] - places[at]))
                                              .relu()));
    }
  }
  const Tensor expected = at::stack(rows).view_as(out);
  EXPECT_TRUE(close(out, expected, 1e-10));
  std::vector<Tensor> inputs = layer->parameters();
  inputs.push_back(x);
  inputs.push_back(positions);
  const Tensor cotangent = at::randn_like(out);
  const auto actual = gradients(out, cotangent, inputs), wanted = gradients(expected, cotangent, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(close(actual[i], wanted[i], 1e-9, 1e-6)) << i;
}

struct Scene {
  PointCloud before, now;
  Tensor actions;
};

Scene scene(const PointModelOptions& options, int64_t steps, at::ScalarType type) {
  return {testing::random_cloud(2, options.particles, options.features, type),
          testing::random_cloud(2, options.particles, options.features, type), at::rand({2, steps + 2, 5, 3}, type)};
}

TEST(Interlacer, StepsAreBoundedAndFirstAreNone) {
  for (const std::string& local : kLayers) {
    const PointModelOptions options = testing::small_options(local);
    Interlacer model(options);
    const Scene s = scene(options, 1, at::kFloat);
    const PointCloud still = model.forward(s.before, s.now, s.actions);
    EXPECT_TRUE(at::equal(still.positions, s.now.positions)) << local;
    EXPECT_TRUE(at::equal(still.features, s.now.features)) << local;
    {
      const at::NoGradGuard no_grad;
      for (Tensor& p : model.parameters()) p.add_(at::randn_like(p) * 3);
    }
    const PointCloud moved = model.forward(s.before, s.now, s.actions);
    const double most = (moved.positions - s.now.positions).abs().max().item<double>();
    EXPECT_LE(most, 0.25 + 1e-6) << local;
    EXPECT_GT(most, 0.01) << local;
  }
}

TEST(Interlacer, ScenesOfABatchDoNotMeet) {
  for (const std::string& local : kLayers) {
    const PointModelOptions options = testing::small_options(local);
    Interlacer model(options);
    testing::shake(model, at::kFloat);
    const Scene s = scene(options, 1, at::kFloat);
    const auto alone = [](const PointCloud& c) {
      return PointCloud{c.positions.slice(0, 0, 1), c.features.slice(0, 0, 1)};
    };
    const PointCloud both = model.forward(s.before, s.now, s.actions),
                     one = model.forward(alone(s.before), alone(s.now), s.actions.slice(0, 0, 1));
    EXPECT_TRUE(close(both.positions.slice(0, 0, 1), one.positions, 1e-4)) << local;
    EXPECT_TRUE(close(both.features.slice(0, 0, 1), one.features, 1e-4)) << local;
  }
}

/// ⟨cotangent, rollout⟩ and its gradients in everything.
std::vector<Tensor> rollout_gradients(PointModel& model, const Scene& s, int64_t steps, Tensor* value = nullptr) {
  std::vector<Tensor> inputs{s.before.positions, s.before.features, s.now.positions, s.now.features};
  for (Tensor& x : inputs) x = x.detach().requires_grad_(true);
  const auto clouds = model.rollout({inputs[0], inputs[1]}, {inputs[2], inputs[3]}, s.actions, steps);
  Tensor sum = at::zeros({}, s.now.positions.options());
  for (const PointCloud& cloud : clouds) sum = sum + (cloud.positions.square().sum() + cloud.features.sin().sum());
  if (value) *value = sum.detach();
  const auto parameters = model.interlacer().parameters();
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return gradients(sum, at::ones_like(sum), inputs);
}

TEST(Rollout, RecomputationHasTheSameGradientsBitForBit) {
  for (const std::string local : {"grf", "message_passing", "none"}) {
    PointModelOptions options = testing::small_options(local);
    PointModel kept(options, 1);
    options.recompute = true;
    PointModel again(options, 1);
    const Scene s = scene(options, 4, at::kFloat);
    for (PointModel* model : {&kept, &again}) {
      at::manual_seed(9);
      testing::shake(*model, at::kFloat);
    }
    Tensor a, b;
    const auto expected = rollout_gradients(kept, s, 4, &a), actual = rollout_gradients(again, s, 4, &b);
    EXPECT_TRUE(at::equal(a, b));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(actual[i], expected[i])) << local << i;
  }
}

TEST(Rollout, GradientsThroughTimeAreFiniteDifferences) {
  PointModelOptions options = testing::small_options("message_passing");
  options.particles = 6;
  options.octaves = 1;  // a step of finite differences must be small compared with a wave
  PointModel model(options, 2);
  at::manual_seed(10);
  testing::shake(model);
  const Scene s = scene(options, 3, at::kDouble);
  Tensor value;
  const auto grads = rollout_gradients(model, s, 3, &value);
  const auto parameters = model.interlacer().parameters();
  const auto value_at = [&](Tensor& x, const Tensor& direction, double step) {
    const at::NoGradGuard no_grad;
    x.add_(direction, step);
    Tensor sum = at::zeros({}, at::kDouble);
    for (const PointCloud& c : model.rollout(s.before, s.now, s.actions, 3))
      sum += c.positions.square().sum() + c.features.sin().sum();
    x.add_(direction, -step);
    return sum.item<double>();
  };
  std::vector<Tensor> points{s.before.positions, s.before.features, s.now.positions, s.now.features};
  points.insert(points.end(), parameters.begin(), parameters.end());
  for (size_t i = 0; i < points.size(); ++i) {
    const Tensor direction = at::randn_like(points[i]);
    const double numeric = (value_at(points[i], direction, 1e-6) - value_at(points[i], direction, -1e-6)) / 2e-6;
    const double analytic = (grads[i] * direction).sum().item<double>();
    EXPECT_NEAR(analytic, numeric, 1e-5 * std::max(1.0, std::abs(numeric))) << i;
  }
}

TEST(Rollout, ChecksItsArguments) {
  const PointModelOptions options = testing::small_options();
  PointModel model(options, 1);
  const Scene s = scene(options, 2, at::kFloat);
  EXPECT_ERROR(model.rollout(s.before, s.now, s.actions, 3), "actions must be [B, steps + 2 = 5, P, 3]");
  EXPECT_ERROR(model.interlacer().forward(s.before, s.now, s.actions), "actions must be [B = 2, 3, P, 3]");
}

TEST(Recomputed, ReturnsNoGradientWhereNoneIsWanted) {
  const Tensor x = at::rand({3}), w = at::rand({3}).requires_grad_(true);
  const Segment twice = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * w, in[0] * 2}; };
  const auto out = recomputed(twice, {x}, {w});
  const auto grads = torch::autograd::grad({out[0].sum()}, {w});
  EXPECT_TRUE(at::equal(grads[0], x));
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(recomputed(twice, {x}, {w})[0].requires_grad());
}

}  // namespace
}  // namespace topomask
