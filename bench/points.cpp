// The model of point-cloud dynamics, timed: a training step of the Interlacer with each local layer, the path from a
// new cloud to a pattern that attention takes, and the renderer. On the terminal: medians in milliseconds, and half the
// distance between the shortest and the longest call in percent of the median. --json ends with one line of all of
// them.
//   points_bench [--json] [cpu|cuda] [particles of a time step, 32768] [even samples of a ray, 64]

#include <torch/cuda.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tasks/autocast.h"
#include "topomask/neighbour_walks.h"
#include "topomask/nn/point_model.h"

namespace topomask::bench {
namespace {

struct Setting {
  at::Device device = at::kCPU;
  int64_t particles = 32768, samples = 64;

  bool on_cuda() const { return device.is_cuda(); }
  at::TensorOptions options() const { return at::device(device).dtype(at::kFloat); }
};

struct Timing {
  double ms = 0;      ///< the median
  double spread = 0;  ///< half the distance between the shortest and the longest call, in percent of the median
};

/// What was measured, by name, in that order; for --json.
std::vector<std::pair<std::string, Timing>>& measured() {
  static std::vector<std::pair<std::string, Timing>> all;
  return all;
}

template <class F>
Timing timed(const Setting& setting, const std::string& name, const F& f) {
  const int warm = setting.on_cuda() ? 5 : 1, calls = setting.on_cuda() ? 20 : 3;
  const auto wait = [&] {
    if (setting.on_cuda()) torch::cuda::synchronize();
  };
  std::vector<double> times;
  for (int i = 0; i < warm + calls; ++i) {
    wait();
    const auto begin = std::chrono::steady_clock::now();
    f();
    wait();
    if (i >= warm) {
      times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  const Timing timing{median, 50 * (times.back() - times.front()) / median};
  measured().emplace_back(name, timing);
  return timing;
}

void print_json(const Setting& setting) {
  std::printf("{\"device\": \"%s\", \"particles\": %ld", setting.device.str().c_str(),
              static_cast<long>(setting.particles));
  for (const auto& [name, timing] : measured()) {
    std::printf(", \"%s\": {\"ms\": %.4f, \"spread_percent\": %.1f}", name.c_str(), timing.ms, timing.spread);
  }
  std::printf("}\n");
}

/// Points near a table and some boxes, as cameras see them: surfaces, not a cube full of points.
at::Tensor surfaces(int64_t clouds, int64_t points, const at::TensorOptions& options) {
  const at::Tensor x = at::rand({clouds, points, 3}, options);
  x.select(2, 2).mul_(0.002).add_((x.select(2, 0) > 0.8).to(at::kFloat) * x.select(2, 1) * 0.3);
  return x;
}

void training_steps(const Setting& setting) {
  constexpr int64_t kBatch = 2, kActionPoints = 64;
  std::printf("training step of the Interlacer: %ld particles of either instant, batch %ld, width 128, 6 blocks, %s\n",
              static_cast<long>(setting.particles), static_cast<long>(kBatch),
              setting.on_cuda() ? "bfloat16" : "float32");
  std::map<std::string, double> times;
  for (const std::string local : {"none", "unmasked", "grf", "neighbours", "message_passing", "exact", "diffusion"}) {
    PointModelOptions options;
    options.particles = setting.particles;
    options.local = local;
    Interlacer model(options);
    model.to(setting.device);
    torch::optim::AdamW optimiser(model.parameters(), torch::optim::AdamWOptions(1e-4));
    const auto cloud = [&] {
      return PointCloud{surfaces(kBatch, setting.particles, setting.options()),
                        at::randn({kBatch, setting.particles, options.features}, setting.options())};
    };
    const PointCloud before = cloud(), now = cloud();
    const at::Tensor actions = at::rand({kBatch, 3, kActionPoints, 3}, setting.options());
    try {
      const Timing step = timed(setting, "step_" + local, [&] {
        PointCloud next;
        {
          const Autocast autocast(setting.device.type(), setting.on_cuda() ? "bfloat16" : "float32");
          next = model.forward(before, now, actions);
        }
        (next.positions.square().mean() + next.features.square().mean()).backward();
        optimiser.step();
        optimiser.zero_grad();
      });
      times[local] = step.ms;
      std::printf("  %-16s %9.2f ms ±%.0f%%   %.2f x the speed of none\n", local.c_str(), step.ms, step.spread,
                  times["none"] / step.ms);
    } catch (const c10::Error& error) {
      std::printf("  %-16s failed: %s\n", local.c_str(), error.what_without_backtrace());
    }
    std::fflush(stdout);
  }
  std::printf("  grf / unmasked: %.2f x the speed (bar 0.9); grf / message_passing: %.2f x (bar 1.5)\n",
              times["unmasked"] / times["grf"], times["message_passing"] / times["grf"]);
  std::printf("  the local layers alone, beyond none: grf / message_passing %.2f x\n",
              (times["message_passing"] - times["none"]) / (times["grf"] - times["none"]));
}

void new_cloud(const Setting& setting) {
  const at::Tensor points = surfaces(1, 32768, setting.options());
  at::Tensor neighbours;
  const Timing knn = timed(setting, "neighbours", [&] { neighbours = cloud_neighbours(points, 3); });
  const Timing rest = timed(setting, "walks", [&] { NeighbourWalks(neighbours, 3); });
  const Timing all = timed(setting, "new_cloud", [&] { NeighbourWalks(cloud_neighbours(points, 3), 3); });
  std::printf(
      "new cloud of 32768 points: neighbours %.3f ms ±%.0f%%, walks, table and pattern %.3f ms ±%.0f%%, together "
      "%.3f ms ±%.0f%% (bar 1.5 on a GPU)\n",
      knn.ms, knn.spread, rest.ms, rest.spread, all.ms, all.spread);
}

void renderer(const Setting& setting, int64_t guided) {
  constexpr int64_t kBatch = 16, kRays = 2 * 128;
  PointModelOptions options;
  options.guided = guided;
  options.samples = setting.samples;
  PointRenderer model(options);
  model.to(setting.device);
  PointCloud cloud{surfaces(kBatch, setting.particles, setting.options()).requires_grad_(true),
                   at::randn({kBatch, setting.particles, options.features}, setting.options()).requires_grad_(true)};
  const at::Tensor along = at::randn({kBatch, kRays, 3}, setting.options());
  const Rays rays{at::rand({kBatch, 2, 1, 3}, setting.options()).expand({kBatch, 2, kRays / 2, 3}).flatten(1, 2),
                  along / along.norm(2, {2}, true), 2};
  const auto render = [&] {
    const Autocast autocast(setting.device.type(), setting.on_cuda() ? "bfloat16" : "float32");
    return model.forward(cloud, rays);
  };
  const std::string name = guided > 0 ? "renderer_guided" : "renderer_even";
  const Timing forward = timed(setting, name, [&] {
    const at::NoGradGuard no_grad;
    render();
  });
  const Timing both = timed(setting, name + "_backward", [&] { render().square().mean().backward(); });
  std::printf(
      "renderer, 128 rays x 2 cameras x batch 16, %ld %s samples of a ray: forward %.2f ms ±%.0f%% (bar 5), with "
      "backward %.2f ms ±%.0f%%\n",
      static_cast<long>(guided > 0 ? guided : setting.samples), guided > 0 ? "guided" : "even", forward.ms,
      forward.spread, both.ms, both.spread);
}

}  // namespace
}  // namespace topomask::bench

int main(int count, char** values) {
  using namespace topomask::bench;
  Setting setting;
  std::vector<std::string> given(values + 1, values + count);
  const bool json = std::erase(given, "--json") > 0;
  if (!given.empty()) setting.device = at::Device(given[0]);
  if (given.size() > 1) setting.particles = std::stol(given[1]);
  if (given.size() > 2) setting.samples = std::stol(given[2]);
  new_cloud(setting);
  renderer(setting, topomask::PointModelOptions().guided);
  renderer(setting, 0);
  training_steps(setting);
  if (json) print_json(setting);
}
