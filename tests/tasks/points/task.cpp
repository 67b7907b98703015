#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/compare.h"
#include "tasks/points/cloud_distance.h"
#include "tasks/points/scores.h"
#include "tasks/points/sliding_box.h"
#include "topomask/config.h"
#include "topomask/data/episodes.h"
#include "topomask/nn/point_model.h"
#include "topomask/tasks/points.h"
#include "topomask/train/train.h"
#include "train/run_testing.h"

namespace topomask {
namespace {

using at::Tensor;
using testing::kCameras;
using testing::kQuiet;
using testing::kSize;
using testing::OneThread;
using testing::ScratchFolder;
using testing::sliding_box;
using testing::write_episodes;

RunConfig point_run(const std::filesystem::path& data, const std::string& local = "grf") {
  RunConfig config;
  config.task = "points";
  config.episode_data.path = data.string();
  config.episode_data.rollout = 2;
  config.episode_data.rays = 8;
  config.episode_data.evaluation_steps = 2;
  PointModelOptions& m = config.point_model;
  m.local = local;
  m.particles = 48;
  m.features = 4;
  m.encoder_width = 4;
  m.encoder_levels = 2;
  m.width = 8;
  m.blocks = 1;
  m.heads = 2;
  m.local_features = 4;
  m.message_neighbours = 4;
  m.render_neighbours = 4;
  m.render_radii = {0, 0.05};
  m.render_bandwidths = {0.05, 0.05};
  m.render_width = 8;
  m.guided = 4;
  m.samples = 8;
  config.train.seed = 5;
  config.train.steps = 5;
  config.train.batch_size = 3;
  config.train.learning_rate = 1e-3;
  config.train.log_every = 2;
  config.train.checkpoint_every = 2;
  config.train.evaluation_batch = 2;
  config.train.ema_decay = 0.5;
  return config;
}

/// The curves of one evaluation are those of another, NaN where that has NaN.
void expect_same_curves(const Evaluation& a, const Evaluation& b) {
  ASSERT_EQ(a.curves.size(), b.curves.size());
  for (size_t c = 0; c < a.curves.size(); ++c) {
    EXPECT_EQ(a.curves[c].name, b.curves[c].name);
    ASSERT_EQ(a.curves[c].values.size(), b.curves[c].values.size());
    for (size_t s = 0; s < a.curves[c].values.size(); ++s) {
      const double x = a.curves[c].values[s], y = b.curves[c].values[s];
      EXPECT_TRUE(x == y || (std::isnan(x) && std::isnan(y))) << a.curves[c].name << " " << x << " " << y;
    }
  }
}

const ScoreCurve& curve(const Evaluation& evaluation, const std::string& name) {
  for (const ScoreCurve& c : evaluation.curves) {
    if (c.name == name) return c;
  }
  TORCH_CHECK(false, "no curve ", name);
}

TEST(PointTask, ARunStoppedAndContinuedEndsBitForBitAsOneThatWasNot) {
  const OneThread one;
  const ScratchFolder folder;
  write_episodes(folder / "data", 5);
  for (const std::string local : {"grf", "message_passing"}) {
    RunConfig config = point_run(folder / "data", local);
    config.point_model.recompute = local == "grf";
    train(config, folder / ("straight" + local), kQuiet);
    TrainHooks hooks = kQuiet;
    hooks.stop = [](int64_t step) { return step == 1 || step == 4; };
    EXPECT_FALSE(train(config, folder / ("broken" + local), hooks).finished);
    EXPECT_EQ(train(config, folder / ("broken" + local), hooks).resumed_from, 1);
    EXPECT_TRUE(train(config, folder / ("broken" + local), hooks).finished);
    testing::expect_same_run(folder / ("straight" + local), folder / ("broken" + local));
  }
}

TEST(PointTask, ACheckpointEvaluatesToTheNumbersOfItsRun) {
  const OneThread one;
  const ScratchFolder folder;
  write_episodes(folder / "data", 5);
  for (const std::string precision : {"float32", "bfloat16"}) {
    RunConfig config = point_run(folder / "data");
    config.train.precision = precision;
    config.train.select = "best";
    config.train.ema_decay = 0;
    const TrainResult result = train(config, folder / precision, kQuiet);
    const LoadedTask loaded = load_task(folder.path / precision / kCheckpointName);
    EXPECT_STREQ(loaded.task->score(), "ssim");
    for (const char* split : {"validation", "test"}) {
      const Evaluation again = loaded.task->evaluate(split);
      EXPECT_EQ(again.loss, result.evaluations.at(split).loss) << precision;
      EXPECT_EQ(again.accuracy, result.evaluations.at(split).accuracy) << precision;
      expect_same_curves(again, result.evaluations.at(split));
    }
  }
}

TEST(PointTask, EvaluationDoesNotDependOnTheBatch) {
  const OneThread one;
  const ScratchFolder folder;
  write_episodes(folder / "data", 8);
  RunConfig config = point_run(folder / "data");
  config.episode_data.test_fraction = 0.4;
  const auto evaluated = [&](int64_t batch) {
    config.train.evaluation_batch = batch;
    const auto task = make_task(config);
    task->make_model(at::kCPU);
    return task->evaluate("test");
  };
  const Evaluation one_by_one = evaluated(1), together = evaluated(3);
  EXPECT_NEAR(one_by_one.accuracy, together.accuracy, 1e-5);
  EXPECT_NEAR(curve(one_by_one, "psnr").values[1], curve(together, "psnr").values[1], 1e-3);
}

TEST(PointTask, FloorsAreThoseOfTheData) {
  const ScratchFolder folder;
  write_episodes(folder / "data", 5);
  const auto task = make_task(point_run(folder / "data"));
  task->make_model(at::kCPU);
  const Evaluation found = task->evaluate("test");
  // The box has moved by one and by two pixels of a sixteenth of a metre, times .9; a model at its start predicts that
  // nothing moves.
  for (const char* name : {"particle_error", "copy_particle_error"}) {
    EXPECT_NEAR(curve(found, name).values[0], 0.9 / 16, 1e-4) << name;
    EXPECT_NEAR(curve(found, name).values[1], 1.8 / 16, 1e-4) << name;
  }
  EXPECT_GT(curve(found, "copy_ssim").values[0], curve(found, "copy_ssim").values[1]);
  EXPECT_GT(curve(found, "copy_ssim").values[0], curve(found, "copy_ssim_moved").values[0]);
  // The last frame has 12 of the 16 pixels of the box in frame 2 right.
  const double wrong = (std::pow(20, 2) + 2 * std::pow(170, 2)) / 3 / (255.0 * 255.0) * 4 / 16;
  EXPECT_NEAR(curve(found, "copy_psnr_moved").values[0], -10 * std::log10(wrong), 1e-3);
  EXPECT_EQ(found.curves.size(), 14u);
  EXPECT_NEAR(found.accuracy, (curve(found, "ssim").values[0] + curve(found, "ssim").values[1]) / 2, 1e-12);
}

TEST(PointTask, TrueParticlesTurnWithTheirObjects) {
  Episode e = sliding_box(0, 3);
  const double half = std::sqrt(0.5);
  e.bodies[2][0] = at::tensor({1.0, 2.0, 0.0, half, 0.0, 0.0, half}, at::kDouble);  // a quarter turn about z
  const Tensor on_box = (e.ids[0][0] == kFirstObject).flatten().nonzero().flatten(), off = at::zeros({1}, at::kLong);
  const Tensor pixels = at::cat({on_box.slice(0, 0, 1), off}),
               x = at::tensor({0.3, 0.1, 0.2, 9.0, 9.0, 9.0}).view({2, 3});
  const TrueParticles known = true_particles(e, x, pixels, 0, 2);
  EXPECT_TRUE(testing::close(known.positions[0], at::tensor({0.9, 2.3, 0.2}, at::kDouble), 1e-6));
  EXPECT_TRUE(testing::close(known.positions[1], x[1], 1e-6));
  EXPECT_TRUE(known.on_moved[0].item<bool>());
  EXPECT_FALSE(known.on_moved[1].item<bool>());
}

TEST(PointTask, ShowsTrueFramesBeforeAnyTraining) {
  const ScratchFolder folder;
  write_episodes(folder / "data", 5);
  RunConfig config = point_run(folder / "data");
  config.point_model.particles = kCameras * kSize * kSize;
  const auto task = make_task(config);
  task->make_model(at::kCPU);
  const Evaluation found = task->evaluate("test");
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_GT(curve(found, "encoded_ssim").values[s], 0.95);
    EXPECT_GT(curve(found, "encoded_psnr").values[s], 25);
    // Nothing moves in its first prediction: the last frame again.
    EXPECT_NEAR(curve(found, "ssim").values[s], curve(found, "copy_ssim").values[s], 0.03);
  }
}

TEST(PointTask, LearnsMoreThanTheLastFrame) {
  const OneThread one;
  const ScratchFolder folder;
  write_episodes(folder / "data", 5);
  RunConfig config = point_run(folder / "data");
  config.train.ema_decay = 0;
  config.train.learning_rate = 1e-2;
  config.train.steps = 60;
  const auto task = make_task(config);
  task->make_model(at::kCPU);
  const double before = task->evaluate("test").loss;
  const TrainResult result = train(config, folder / "run", kQuiet);
  // Before training it shows the last frame again, as far as few particles can.
  EXPECT_LT(result.evaluations.at("test").loss, 0.7 * before);
}

TEST(PointTask, CloudsAreNearWhereNothingMovedAndPullParticlesWhereItDid) {
  const ScratchFolder folder;
  write_episodes(folder / "data", 5);
  EpisodeDataOptions data;
  data.path = (folder / "data").string();
  EpisodeCache episodes(data);
  const std::vector<Window> windows{{0, 0, 7}, {3, 1, 8}};
  const SceneBatch batch =
      make_scenes(episodes, windows, {.steps = 1, .rays = 40, .changed = 0.5, .whole_frames = true}, 1, at::kCPU);
  // The first 20 of 40 pixels of a camera differ from the last frame: the box, or where it was.
  const Tensor last = batch.rgb.select(1, 1).flatten(2, 3).to(at::kFloat) / 255;
  const Tensor pixels = batch.pixels[0].unsqueeze(-1).expand({2, kCameras, 40, 3});
  const Tensor differ =
      (last.gather(2, pixels) - batch.colours[0].view({2, kCameras, 40, 3})).abs().sum(-1).gt(0.05).to(at::kFloat);
  EXPECT_EQ(differ.slice(2, 0, 20).min().item<double>(), 1);
  EXPECT_LT(differ.slice(2, 20).mean().item<double>(), 0.5);
  const auto cloud_of = [&](const Tensor& rgb, const Tensor& depth) {
    const Tensor features = feature_of_colour(rgb.to(at::kFloat) / 255).flatten(1, 3);
    return PointCloud{batch.cameras.unproject(depth).flatten(1, 2).clone(), features};
  };
  const PointCloud next = cloud_of(batch.next_rgb[0], batch.next_depth[0]);
  EXPECT_LT(cloud_distance(next, batch, true, 512).item<double>(), 1e-4);
  PointCloud stays = cloud_of(batch.rgb.select(1, 1), batch.depth.select(1, 1));
  stays.positions.requires_grad_(true);
  const Tensor distance = cloud_distance(stays, batch, true, 512);
  EXPECT_GT(distance.item<double>(), 1e-3);
  const Tensor pull = torch::autograd::grad({distance}, {stays.positions})[0];
  const Tensor on_box = batch.depth.select(1, 1).flatten(1).lt(0.95);
  EXPECT_LT(pull.select(2, 0).masked_select(on_box).sum().item<double>(), 0);  // towards greater x
}

/// cloud_distance over positions, a point after the other.
double plain_cloud_distance(const Tensor& particles, const SceneBatch& batch, int64_t points) {
  const auto softened = [](const Tensor& difference) {
    return (difference.square().sum(-1) + 4e-6).sqrt().min().item<double>() - 2e-3;
  };
  double found = 0, back = 0;
  int64_t asked = 0, returned = 0;
  for (int64_t b = 0; b < particles.size(0); ++b) {
    std::vector<Tensor> seen;
    const Tensor depth = batch.next_depth[0][b].flatten(1), places = batch.cameras.unproject(batch.next_depth[0])[b];
    for (int64_t camera = 0; camera < kCameras; ++camera) {
      for (int64_t p = 0; p < depth.size(1); ++p) {
        if (depth[camera][p].item<double>() > 0) seen.push_back(places[camera][p]);
      }
      for (int64_t r = 0; r < batch.pixels.size(3); ++r) {
        const auto p = batch.pixels[0][b][camera][r].item<int64_t>();
        if (depth[camera][p].item<double>() == 0) continue;
        found += softened(particles[b] - places[camera][p]);
        ++asked;
      }
    }
    if (seen.empty()) continue;
    for (int64_t n = 0; n < points; ++n) back += softened(at::stack(seen) - particles[b][n]);
    returned += points;
  }
  return 0.5 * (found / static_cast<double>(asked) + back / static_cast<double>(returned));
}

TEST(PointTask, PixelsThatSeeNothingAreNoPartOfTheDistanceOfClouds) {
  const ScratchFolder folder;
  write_episodes(folder / "data", 5);
  EpisodeDataOptions data;
  data.path = (folder / "data").string();
  EpisodeCache episodes(data);
  const std::vector<Window> windows{{0, 0, 7}, {3, 1, 8}};
  const SceneBatch batch = make_scenes(episodes, windows, {.steps = 1, .rays = 30, .whole_frames = true}, 1, at::kCPU);
  at::manual_seed(4);
  const PointCloud cloud{at::rand({2, 20, 3}) * at::tensor({0.5F, 0.5F, 1.0F}), at::Tensor()};  // some near a camera
  const auto expect_plain = [&] {
    EXPECT_NEAR(cloud_distance(cloud, batch, false, 15).item<double>(),
                plain_cloud_distance(cloud.positions, batch, 15), 1e-5);
  };
  expect_plain();
  batch.next_depth.slice(3, 0, 9).zero_();  // the upper half of both cameras
  expect_plain();
  batch.next_depth.select(1, 1).zero_();  // one of the scenes sees nothing at all
  expect_plain();
  batch.next_depth.zero_();
  EXPECT_EQ(cloud_distance(cloud, batch, false, 15).item<double>(), 0);
}

TEST(PointTask, MicroBatchesSumToTheLoss) {
  const ScratchFolder folder;
  write_episodes(folder / "data", 5);
  RunConfig config = point_run(folder / "data");
  const auto loss_in = [&](int64_t parts) {
    config.train.accumulation = parts;
    const auto task = make_task(config);
    task->open_training();
    task->make_model(at::kCPU);
    task->load_batch(0);
    double sum = 0;
    for (int64_t p = 0; p < parts; ++p) sum += task->loss(p).item<double>();
    return sum;
  };
  EXPECT_NEAR(loss_in(1), loss_in(3), 1e-5);
}

TEST(PointTask, AViewIsTheRolloutOfAnEpisode) {
  const ScratchFolder folder;
  write_episodes(folder / "data", 5);
  const auto task = make_task(point_run(folder / "data"));
  task->make_model(at::kCPU);
  const RolloutView view = view_rollout(*task, "test", 0, 3);
  EXPECT_EQ(view.kind, "push");
  EXPECT_EQ(view.truth.sizes(), (std::vector<int64_t>{3, kCameras, kSize, kSize, 3}));
  EXPECT_EQ(view.prediction.sizes(), view.truth.sizes());
  EXPECT_EQ(view.encoded.sizes(), view.truth.sizes());
  EXPECT_NEAR(view.ssim[0], curve(task->evaluate("test"), "ssim").values[0], 1e-6);
  EXPECT_ERROR(view_rollout(*task, "test", 1, 3), "view_rollout: place must be in [0, 1), the test split, got 1");
}

TEST(PointTask, ConfigurationsAreReadAndChecked) {
  const RunConfig config = parse_config(R"({"task": "points", "model": {"local": "message_passing", "blocks": 2},
                       "data": {"path": "somewhere", "rollout": 3}, "train": {"schedule": "step"}})",
                                        "here: ");
  EXPECT_EQ(config.variant(), "message_passing");
  EXPECT_EQ(config.episode_data.rollout, 3);
  EXPECT_EQ(to_json(parse_config(to_json(config), "again: ")), to_json(config));
  EXPECT_ERROR(parse_config(R"({"task": "points", "model": {"local": "far"}})", "here: "),
               "here: model.local must be one of diffusion, exact, grf");
  EXPECT_ERROR(parse_config(R"({"task": "points", "data": {"rollout": 0}})", "here: "),
               "here: data.rollout must be from 1");
  const ScratchFolder folder;
  write_episodes(folder / "data", 5);
  RunConfig long_rollout = point_run(folder / "data");
  long_rollout.episode_data.rollout = 9;
  EXPECT_ERROR(train(long_rollout, folder / "run", kQuiet),
               "data.rollout must leave a window in some training episode");
}

}  // namespace
}  // namespace topomask
