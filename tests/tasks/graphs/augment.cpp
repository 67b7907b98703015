#include "tasks/graphs/augment.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/radar_files.h"
#include "support/compare.h"
#include "topomask/tasks/task.h"

namespace topomask::testing {
namespace {

/// Two clouds of three points with a place, a normal and one more feature.
GraphSample two_clouds() {
  const at::Tensor membership = at::tensor({0, 0, 0, 1, 1, 1}, at::kLong);
  return {.graph = Graph::path(6), .features = at::randn({6, 7}), .membership = membership, .graphs = 2};
}

TEST(AugmentClouds, TurnsEachCloudByARotationOfItsOwn) {
  for (const char* kind : {"vertical", "any"}) {
    const GraphSample before = two_clouds();
    GraphSample after = before;
    augment_clouds(after, {.kind = "mesh", .rotate = kind}, 2, 3, 4);
    EXPECT_TRUE(at::equal(after.features.select(1, 6), before.features.select(1, 6)));
    const at::Tensor x = before.features.narrow(1, 0, 6).reshape({2, 6, 3}).to(at::kDouble),
                     y = after.features.narrow(1, 0, 6).reshape({2, 6, 3}).to(at::kDouble);
    // All inner products of a cloud's places and normals are kept, and so is the handedness of three of them.
    EXPECT_TRUE(close(y.matmul(y.mT()), x.matmul(x.mT()), 1e-5));
    EXPECT_TRUE(close(at::linalg_det(y.narrow(1, 0, 3)), at::linalg_det(x.narrow(1, 0, 3)), 1e-4));
    EXPECT_EQ(close(y.select(2, 2), x.select(2, 2), 1e-5), kind == std::string("vertical"));
    // Both clouds have other rotations: R = (XᵀX)⁻¹XᵀY.
    const at::Tensor turned = at::linalg_solve(x.mT().matmul(x), x.mT().matmul(y));
    EXPECT_FALSE(close(turned[0], turned[1], 1e-2));
    GraphSample again = before, other = before;
    augment_clouds(again, {.kind = "mesh", .rotate = kind}, 2, 3, 4);
    augment_clouds(other, {.kind = "mesh", .rotate = kind}, 2, 3, 5);
    EXPECT_TRUE(at::equal(again.features, after.features));
    EXPECT_FALSE(at::equal(other.features, after.features));
  }
}

TEST(AugmentClouds, RotatesUniformly) {
  // A rotated vector is as likely to point anywhere: its components have mean 0 and variance 1/3.
  constexpr int64_t kClouds = 20000;
  GraphSample sample{.graph = Graph::path(kClouds),
                     .features = at::tensor({0.6F, 0.F, 0.8F}).expand({kClouds, 3}).contiguous(),
                     .membership = at::arange(kClouds),
                     .graphs = kClouds};
  augment_clouds(sample, {.kind = "mesh", .rotate = "any"}, 1, 1, 0);
  const at::Tensor y = sample.features.to(at::kDouble);
  const double error = 5 / std::sqrt(static_cast<double>(kClouds));  // five standard errors at the most
  EXPECT_LT(y.mean(0).abs().max().item<double>(), error * std::sqrt(1. / 3));
  EXPECT_LT((y.mT().matmul(y) / kClouds - at::eye(3, at::kDouble) / 3).abs().max().item<double>(), error * 0.3);
}

TEST(AugmentClouds, AddsNoiseToPlacesAlone) {
  const GraphSample before = two_clouds();
  GraphSample after = before;
  augment_clouds(after, {.kind = "mesh", .jitter = 0.1}, 2, 3, 4);
  EXPECT_TRUE(at::equal(after.features.narrow(1, 3, 4), before.features.narrow(1, 3, 4)));
  const at::Tensor noise = after.features.narrow(1, 0, 3) - before.features.narrow(1, 0, 3);
  EXPECT_GT(noise.abs().min().item<double>(), 0);
  EXPECT_LT(noise.abs().max().item<double>(), 0.6);
  GraphSample same = before;
  augment_clouds(same, {.kind = "mesh"}, 2, 3, 4);
  EXPECT_TRUE(at::equal(same.features, before.features));
}

TEST(GraphTask, LearnsRadarClouds) {
  const TemporaryFolder folder;
  RunConfig config;
  config.task = "graphs";
  config.graph_data = {.kind = "radhar",
                       .path = small_radar(folder).write(),
                       .validation_fraction = 0.5,
                       .neighbours = 2,
                       .window = 4,
                       .stride = 2,
                       .rotate = "vertical",
                       .jitter = 0.01};
  config.graph_model.kind = "transformer";
  config.graph_model.mask = "grf";
  config.graph_model.width = 8;
  config.train.batch_size = 5;
  const auto task = make_task(config);
  task->open_training();
  task->make_model(at::kCPU);
  EXPECT_EQ(task->config().graph_model.features, 6);
  EXPECT_EQ(task->config().graph_model.classes, 5);
  task->load_batch(0);
  const at::Tensor loss = task->loss(0);
  EXPECT_TRUE(loss.isfinite().item<bool>());
  loss.backward();
  EXPECT_EQ(task->size("test"), 10);
  EXPECT_TRUE(std::isfinite(task->evaluate("test").loss));
  // Evaluation sees clouds as they are, and a step is a function of its number.
  EXPECT_EQ(task->evaluate("test").loss, task->evaluate("test").loss);
  task->load_batch(1);
  task->load_batch(0);
  EXPECT_EQ(task->loss(0).item<double>(), loss.item<double>());
}

}  // namespace
}  // namespace topomask::testing
