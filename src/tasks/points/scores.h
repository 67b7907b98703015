#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/internal_api.h"
#include "topomask/data/episodes.h"
#include "topomask/tasks/task.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// Means of scores by name and step. A score that is not a number is left out of its mean.
class StepScores {
 public:
  explicit StepScores(int64_t steps) : steps_(steps) {}

  /// SSIM and PSNR of images [C, 3, H, W] in [0, 1], as PREFIXssim and PREFIXpsnr, and over the moved objects' pixels,
  /// moved bool [C, H, W], as PREFIXssim_moved and PREFIXpsnr_moved. PSNR counts 100 dB at most: equal images have no
  /// finite one.
  void add_images(const std::string& prefix, int64_t step, const at::Tensor& images, const at::Tensor& truth,
                  const at::Tensor& moved);
  void add(const std::string& name, int64_t step, double value);

  std::vector<ScoreCurve> curves() const;      ///< in the order of first appearance
  double mean(const std::string& name) const;  ///< over the steps

 private:
  struct Sums {
    std::string name;
    std::vector<double> sum;
    std::vector<int64_t> count;
  };
  int64_t steps_;
  std::vector<Sums> sums_;
};

/// Where particles that lie on objects in frame `from` are in frame `to`, by the objects' poses: the truth of the
/// simulator. `on_moved` marks those of objects that move between the frames.
struct TrueParticles {
  at::Tensor positions;  ///< float64 [N, 3]
  at::Tensor on_moved;   ///< bool [N]
};
/// positions [N, 3] on the CPU, pixels int64 [N]: camera·H·W + pixel of each particle in frame `from`.
TrueParticles true_particles(const Episode& episode, const at::Tensor& positions, const at::Tensor& pixels,
                             int64_t from, int64_t to);

}  // namespace topomask
