#include "tasks/points/task.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "core/checks.h"
#include "data/random_order.h"
#include "tasks/autocast.h"
#include "tasks/from_data.h"
#include "tasks/points/cloud_distance.h"
#include "tasks/points/scores.h"
#include "topomask/tasks/image_scores.h"

namespace topomask {
namespace {

constexpr uint64_t kEvaluationDraws = uint64_t{1} << 48;  // apart from those of training

const TaskRegistration kPoints("points", [](const RunConfig& config) { return std::make_unique<PointTask>(config); });

/// How many of n are held out: at least one where a fraction is wanted and two others stay.
int64_t held_out(double fraction, int64_t n) {
  const auto rounded = static_cast<int64_t>(std::lround(fraction * static_cast<double>(n)));
  return fraction > 0 && n >= 3 ? std::max<int64_t>(rounded, 1) : rounded;
}

/// uint8 [..., H, W, 3] as float32 [..., 3, H, W] in [0, 1].
at::Tensor channels_first(const at::Tensor& rgb) {
  return (rgb.to(at::kFloat) / 255).movedim(-1, -3);
}

}  // namespace

EpisodeCache& PointTask::episodes() const {
  if (!episodes_) {
    episodes_ = std::make_unique<EpisodeCache>(config_.episode_data);
    split_episodes();
  }
  return *episodes_;
}

void PointTask::split_episodes() const {
  const EpisodeDataOptions& data = config_.episode_data;
  const int64_t count = episodes_->set().size(), validation = held_out(data.validation_fraction, count),
                test = held_out(data.test_fraction, count);
  std::vector<int64_t> order = random_order(count, data.split_seed, 0, DrawFor::split);
  const auto take = [&](int64_t first, int64_t last) {
    std::vector<int64_t> taken(order.begin() + first, order.begin() + last);
    std::sort(taken.begin(), taken.end());
    return taken;
  };
  test_ = take(0, test);
  validation_ = take(test, test + validation);
  train_ = take(test + validation, count);
  for (std::vector<int64_t>* held : {&test_, &validation_}) {
    if (data.evaluation_episodes > 0 && std::ssize(*held) > data.evaluation_episodes) {
      held->resize(static_cast<size_t>(data.evaluation_episodes));
    }
  }
}

const std::vector<int64_t>& PointTask::places(const std::string& split) const {
  const Split chosen = split_named(split);
  episodes();
  return chosen == Split::train ? train_ : chosen == Split::validation ? validation_ : test_;
}

void PointTask::open_training() {
  config_.point_model.check("train: model.");
  const TrainOptions& o = config_.train;
  const int64_t frames = config_.episode_data.rollout + 2;
  windows_.clear();
  for (const int64_t episode : places("train")) {
    const int64_t count = episodes().set().summary(episode).frames - frames + 1;
    for (int64_t first = 0; first < count; ++first) windows_.push_back({episode, first, 0});
  }
  TORCH_CHECK(!windows_.empty(), "train: data.rollout must leave a window in some training episode of ",
              std::ssize(train_), ", which takes ", frames, " frames, got ", config_.episode_data.rollout);
  TORCH_CHECK(o.accumulation <= items_per_step(), "train: accumulation must be in [1, ", items_per_step(), "], got ",
              o.accumulation);
  TORCH_CHECK(!splits().empty(), "train: data.test_fraction must hold an episode out, got ",
              config_.episode_data.test_fraction, " of ", episodes().set().size());
  epoch_ = -1;
}

int64_t PointTask::items_per_step() const {
  return std::min(std::ssize(windows_), config_.train.batch_size);
}

int64_t PointTask::steps_per_epoch() const {
  return (std::ssize(windows_) + items_per_step() - 1) / items_per_step();
}

void PointTask::load_batch(int64_t step) {
  const int64_t epoch = step / steps_per_epoch(), first = step % steps_per_epoch() * items_per_step();
  if (epoch != epoch_) {
    order_ = random_order(std::ssize(windows_), config_.train.seed, static_cast<uint32_t>(epoch), DrawFor::order);
    epoch_ = epoch;
  }
  scenes_ = std::min(items_per_step(), std::ssize(windows_) - first);
  std::vector<Window> chosen;
  for (int64_t i = 0; i < scenes_; ++i) {
    chosen.push_back(windows_[static_cast<size_t>(order_[static_cast<size_t>(first + i)])]);
    chosen.back().draw = static_cast<uint64_t>(step * items_per_step() + i);
  }
  micro_batches_.clear();
  const EpisodeDataOptions& data = config_.episode_data;
  const SceneTargets targets{
      .steps = data.rollout, .rays = data.rays, .changed = data.changed_rays, .whole_frames = data.cloud_weight > 0};
  const int64_t parts = config_.train.accumulation;
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t from = scenes_ * p / parts, to = scenes_ * (p + 1) / parts;
    if (from == to) continue;
    micro_batches_.push_back(
        make_scenes(episodes(), std::span(chosen).subspan(static_cast<size_t>(from), static_cast<size_t>(to - from)),
                    targets, config_.train.seed, device()));
  }
}

PointTask::Rollout PointTask::roll(const SceneBatch& batch) {
  const Autocast autocast(device().type(), config_.train.precision);
  const auto encode = [&](int64_t frame) {
    return point_model().encode(batch.rgb.select(1, frame), batch.depth.select(1, frame), batch.cameras,
                                batch.keys.select(1, frame).contiguous());
  };
  const PointModel::Encoded before = encode(0);
  Rollout result{.now = encode(1)};
  result.clouds = point_model().rollout(before.cloud, result.now.cloud, batch.actions, batch.steps());
  return result;
}

at::Tensor PointTask::loss(int64_t part) {
  if (part >= std::ssize(micro_batches_)) {  // fewer scenes than parts at the end of an epoch
    return at::zeros({}, at::device(device())).requires_grad_(true);
  }
  const SceneBatch& batch = micro_batches_[static_cast<size_t>(part)];
  const Rollout rolled = roll(batch);
  std::vector<at::Tensor> positions, features, origins, directions;
  const auto show = [&](const PointCloud& cloud, const at::Tensor& pixels) {
    const Rays rays = batch.cameras.rays(pixels);
    positions.push_back(cloud.positions);
    features.push_back(cloud.features);
    origins.push_back(rays.origins);
    directions.push_back(rays.directions);
  };
  for (int64_t s = 0; s < batch.steps(); ++s) show(rolled.clouds[static_cast<size_t>(s)], batch.pixels[s]);
  const PointCloud predicted{at::cat(positions), at::cat(features)};
  // The last seen frame too: what the encoder finds must stay something that the renderer shows.
  show(rolled.now.cloud, batch.pixels[0]);
  const at::Tensor seen = batch.rgb.select(1, 1).flatten(2, 3);  // [B, C, H·W, 3]
  const at::Tensor its_colours =
      seen.gather(2, batch.pixels[0].unsqueeze(-1).expand({-1, -1, -1, 3})).flatten(1, 2).to(at::kFloat) / 255;
  const PointCloud shown{at::cat(positions), at::cat(features)};
  const Rays rays{at::cat(origins), at::cat(directions), batch.cameras.cameras()};
  at::Tensor jitter;
  if (config_.point_model.guided == 0) {
    jitter =
        at::rand({rays.origins.size(0), rays.origins.size(1), config_.point_model.samples}, rays.origins.options());
  }
  at::Tensor colours;
  {
    const Autocast autocast(device().type(), config_.train.precision);
    colours = point_model().renderer().forward(shown, rays, jitter);
  }
  at::Tensor error = (colours - at::cat({batch.colours.flatten(0, 1), its_colours})).square().mean();
  const EpisodeDataOptions& data = config_.episode_data;
  if (data.cloud_weight > 0) {
    // Against moves that nothing asks for: most of a scene stands still, to the millimetre.
    constexpr double kStillness = 0.2;
    positions.insert(positions.begin(), rolled.now.cloud.positions);
    positions.resize(static_cast<size_t>(batch.steps()));
    const at::Tensor moved = mean_length(predicted.positions - at::cat(positions));
    error = error + data.cloud_weight *
                        (kStillness * moved +
                         cloud_distance(predicted, batch, config_.point_model.colour_features, data.cloud_points));
  }
  return error * (static_cast<double>(batch.scenes()) / static_cast<double>(scenes_));
}

std::vector<std::string> PointTask::splits() const {
  std::vector<std::string> found;
  for (const char* split : {"validation", "test"}) {
    if (!places(split).empty()) found.emplace_back(split);
  }
  return found;
}

int64_t PointTask::size(const std::string& split) {
  return std::ssize(places(split));
}

at::Tensor PointTask::picture(const PointCloud& cloud, const Cameras& cameras) {
  const Autocast autocast(device().type(), config_.train.precision);
  const at::Tensor colours = point_model().renderer().forward(cloud, cameras.rays(cameras.all_pixels()));
  return colours.view({cameras.scenes(), cameras.cameras(), cameras.height(), cameras.width(), 3})
      .movedim(-1, -3)
      .to(at::kFloat);
}

at::Tensor PointTask::encoded_picture(const at::Tensor& rgb, const at::Tensor& depth, const SceneBatch& batch) {
  PointCloud cloud;
  {
    const Autocast autocast(device().type(), config_.train.precision);
    cloud = point_model().encode(rgb, depth, batch.cameras, batch.keys.select(1, 1).contiguous()).cloud;
  }
  return picture(cloud, batch.cameras);
}

Window PointTask::evaluation_window(int64_t episode) {
  return {episode, 0, kEvaluationDraws + static_cast<uint64_t>(episode)};
}

int64_t PointTask::evaluation_steps(const std::vector<int64_t>& chosen) const {
  int64_t steps = config_.episode_data.evaluation_steps;
  for (const int64_t episode : chosen) steps = std::min(steps, episodes().set().summary(episode).frames - 2);
  TORCH_CHECK(steps >= 1, "evaluate: episodes must have at least 3 frames, got one of ", steps + 2);
  return steps;
}

void PointTask::add_scores(StepScores& scores, const SceneBatch& batch, std::span<const int64_t> chosen,
                           double& squares) {
  const Rollout rolled = roll(batch);
  const at::Tensor start = rolled.now.cloud.positions.to(at::kCPU), pixels = rolled.now.pixels.to(at::kCPU);
  const at::Tensor last = channels_first(batch.rgb.select(1, 1));
  for (int64_t s = 0; s < batch.steps(); ++s) {
    const PointCloud& cloud = rolled.clouds[static_cast<size_t>(s)];
    std::vector<at::Tensor> rgb, depth;
    for (const int64_t e : chosen) {
      rgb.push_back(episodes().episode(e)->rgb[s + 2]);
      depth.push_back(episodes().episode(e)->depth[s + 2]);
    }
    const at::Tensor frames = at::stack(rgb).to(device()), truth = channels_first(frames);
    const at::Tensor predicted = picture(cloud, batch.cameras);
    const at::Tensor encoded = encoded_picture(frames, at::stack(depth).to(device()), batch);
    squares += (predicted - truth).square().mean().item<double>() * static_cast<double>(batch.scenes());
    const at::Tensor positions = cloud.positions.to(at::kCPU, at::kDouble);
    for (int64_t b = 0; b < batch.scenes(); ++b) {
      const auto episode = episodes().episode(chosen[static_cast<size_t>(b)]);
      const at::Tensor moved = moved_pixels(*episode, 1, s + 2).to(device());
      scores.add_images("", s, predicted[b], truth[b], moved);
      scores.add_images("copy_", s, last[b], truth[b], moved);
      scores.add_images("encoded_", s, encoded[b], truth[b], moved);
      const TrueParticles known = true_particles(*episode, start[b], pixels[b], 1, s + 2);
      const auto error = [&](const at::Tensor& x) {
        const at::Tensor distance = (x - known.positions).square().sum(1).sqrt();
        return distance.masked_select(known.on_moved).mean().item<double>();
      };
      scores.add("particle_error", s, error(positions[b]));
      scores.add("copy_particle_error", s, error(start[b].to(at::kDouble)));
    }
  }
}

Evaluation PointTask::evaluate(const std::string& split) {
  const std::vector<int64_t>& all = places(split);
  if (all.empty()) return {};
  const at::NoGradGuard no_grad;
  const bool was_training = model().is_training();
  model().eval();
  const int64_t steps = evaluation_steps(all);
  StepScores scores(steps);
  double squares = 0;
  for (int64_t first = 0; first < std::ssize(all); first += config_.train.evaluation_batch) {
    const int64_t count = std::min(config_.train.evaluation_batch, std::ssize(all) - first);
    const auto chosen = std::span(all).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    std::vector<Window> windows;
    for (const int64_t episode : chosen) windows.push_back(evaluation_window(episode));
    // One ray: the pictures ask for their own.
    const SceneBatch batch =
        make_scenes(episodes(), windows, {.steps = steps, .rays = 1}, config_.train.seed, device());
    add_scores(scores, batch, chosen, squares);
  }
  model().train(was_training);
  return {.loss = squares / static_cast<double>(std::ssize(all) * steps),
          .accuracy = scores.mean("ssim"),
          .curves = scores.curves()};
}

std::shared_ptr<torch::nn::Module> PointTask::new_model() const {
  return std::make_shared<PointModel>(config_.point_model, config_.train.seed);
}

}  // namespace topomask
