#include "tasks/points/scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "topomask/tasks/image_scores.h"

namespace topomask {
namespace {

/// Rotation matrices [..., 3, 3] of unit quaternions (w, x, y, z) [..., 4].
at::Tensor rotations(const at::Tensor& q) {
  const at::Tensor w = q.select(-1, 0), x = q.select(-1, 1), y = q.select(-1, 2), z = q.select(-1, 3);
  return at::stack({1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z),
                    1 - 2 * (x * x + z * z), 2 * (y * z - w * x), 2 * (x * z - w * y), 2 * (y * z + w * x),
                    1 - 2 * (x * x + y * y)},
                   -1)
      .unflatten(-1, {3, 3});
}

}  // namespace

void StepScores::add(const std::string& name, int64_t step, double value) {
  auto found = std::find_if(sums_.begin(), sums_.end(), [&](const Sums& s) { return s.name == name; });
  if (found == sums_.end()) {
    const auto steps = static_cast<size_t>(steps_);
    found = sums_.insert(sums_.end(), {name, std::vector<double>(steps), std::vector<int64_t>(steps)});
  }
  if (std::isnan(value)) return;
  found->sum.at(static_cast<size_t>(step)) += value;
  ++found->count.at(static_cast<size_t>(step));
}

void StepScores::add_images(const std::string& prefix, int64_t step, const at::Tensor& images, const at::Tensor& truth,
                            const at::Tensor& moved) {
  constexpr double kMostDecibels = 100;
  const auto each = [&](const char* name, const at::Tensor& values) {
    const at::Tensor listed = values.to(at::kCPU, at::kDouble);
    for (int64_t c = 0; c < listed.size(0); ++c) add(prefix + name, step, listed[c].item<double>());
  };
  each("ssim", ssim(images, truth));
  each("ssim_moved", ssim(images, truth, moved));
  each("psnr", psnr(images, truth).clamp_max(kMostDecibels));
  each("psnr_moved", psnr(images, truth, moved).clamp_max(kMostDecibels));
}

std::vector<ScoreCurve> StepScores::curves() const {
  std::vector<ScoreCurve> curves;
  for (const Sums& sums : sums_) {
    ScoreCurve& curve = curves.emplace_back(ScoreCurve{sums.name, {}});
    for (size_t s = 0; s < sums.sum.size(); ++s)
      curve.values.push_back(sums.sum[s] / static_cast<double>(sums.count[s]));
  }
  return curves;
}

double StepScores::mean(const std::string& name) const {
  for (const Sums& sums : sums_) {
    if (sums.name != name) continue;
    double sum = 0;
    int64_t count = 0;
    for (size_t s = 0; s < sums.sum.size(); ++s) {
      sum += sums.sum[s];
      count += sums.count[s];
    }
    return sum / static_cast<double>(count);
  }
  return std::nan("");
}

TrueParticles true_particles(const Episode& episode, const at::Tensor& positions, const at::Tensor& pixels,
                             int64_t from, int64_t to) {
  const at::Tensor ids = episode.ids[from].flatten().index_select(0, pixels).to(at::kLong);
  const at::Tensor object = (ids - kFirstObject).clamp_min(0), on_object = ids >= kFirstObject;
  const at::Tensor x = positions.to(at::kDouble);
  if (episode.objects() == 0) return {x, at::zeros_like(on_object)};
  const at::Tensor before = episode.bodies[from], after = episode.bodies[to];
  const at::Tensor turn =
      at::matmul(rotations(after.slice(1, 3)), rotations(before.slice(1, 3)).mT()).index_select(0, object);
  const auto centre = [&](const at::Tensor& bodies) { return bodies.slice(1, 0, 3).index_select(0, object); };
  const at::Tensor carried = at::matmul(turn, (x - centre(before)).unsqueeze(-1)).squeeze(-1) + centre(after);
  const at::Tensor moves = moved_objects(episode, from, to).index_select(0, object);
  return {at::where(on_object.unsqueeze(1), carried, x), on_object.logical_and(moves)};
}

}  // namespace topomask
