#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <array>

#include "tasks/points/task.h"
#include "topomask/tasks/image_scores.h"
#include "topomask/tasks/points.h"

namespace topomask {
namespace {

/// [1, C, 3, H, W] in [0, 1] as uint8 [C, H, W, 3].
at::Tensor as_bytes(const at::Tensor& picture) {
  return (picture[0].movedim(-3, -1).clamp(0, 1) * 255).round().to(at::kByte).to(at::kCPU).contiguous();
}

}  // namespace

RolloutView view_rollout(Task& of, const std::string& split, int64_t place, int64_t most_steps) {
  auto* task = dynamic_cast<PointTask*>(&of);
  TORCH_CHECK(task != nullptr, "view_rollout: the task must be points, got ", of.config().task);
  const std::vector<int64_t>& places = task->places(split);
  TORCH_CHECK(place >= 0 && place < std::ssize(places), "view_rollout: place must be in [0, ", std::ssize(places),
              "), the ", split, " split, got ", place);
  TORCH_CHECK(most_steps >= 1, "view_rollout: most_steps must be >= 1, got ", most_steps);
  const at::NoGradGuard no_grad;
  task->model().eval();
  const int64_t chosen = places[static_cast<size_t>(place)];
  const auto episode = task->episodes().episode(chosen);
  const int64_t steps = std::min(most_steps, episode->frames() - 2);
  const std::array windows{PointTask::evaluation_window(chosen)};
  const SceneBatch batch =
      make_scenes(task->episodes(), windows, {.steps = steps, .rays = 1}, task->config().train.seed, task->device());
  const PointTask::Rollout rolled = task->roll(batch);
  std::vector<at::Tensor> prediction, encoded;
  RolloutView view{.kind = episode->kind, .truth = episode->rgb.narrow(0, 2, steps)};
  for (int64_t s = 0; s < steps; ++s) {
    const at::Tensor picture = task->picture(rolled.clouds[static_cast<size_t>(s)], batch.cameras);
    const at::Tensor rgb = view.truth[s].unsqueeze(0).to(task->device());
    const at::Tensor depth = episode->depth[s + 2].unsqueeze(0).to(task->device());
    prediction.push_back(as_bytes(picture));
    encoded.push_back(as_bytes(task->encoded_picture(rgb, depth, batch)));
    view.ssim.push_back(ssim(picture, (rgb.to(at::kFloat) / 255).movedim(-1, -3)).mean().item<double>());
  }
  view.prediction = at::stack(prediction);
  view.encoded = at::stack(encoded);
  return view;
}

}  // namespace topomask
