#include "tasks/graphs/augment.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "data/graphs/names.h"
#include "data/philox_stream.h"

namespace topomask {
namespace {

/// [G, 3, 3], a rotation for each graph, uniform in angle or over all rotations.
at::Tensor random_rotations(int64_t graphs, Rotation kind, uint64_t seed, uint32_t draw) {
  at::Tensor rotations = at::empty({graphs, 3, 3});
  float* out = rotations.mutable_data_ptr<float>();
  for (int64_t g = 0; g < graphs; ++g) {
    PhiloxStream stream(seed, draw, g, DrawFor::rotation);
    const auto uniform = [&] { return static_cast<double>(stream.word()) * 0x1p-32; };
    // A unit quaternion: around z, or uniform over the sphere of four dimensions (Shoemake 1992).
    const double turn = 2 * std::numbers::pi * uniform();
    double w = std::cos(turn / 2), x = 0, y = 0, z = std::sin(turn / 2);
    if (kind == Rotation::any) {
      const double part = uniform(), other = 2 * std::numbers::pi * uniform();
      w = std::sqrt(part) * std::cos(turn);
      z = std::sqrt(part) * std::sin(turn);
      x = std::sqrt(1 - part) * std::cos(other);
      y = std::sqrt(1 - part) * std::sin(other);
    }
    for (const double value : {1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),  //
                               2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),  //
                               2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}) {
      *out++ = static_cast<float>(value);
    }
  }
  return rotations;
}

/// [N, 3], Gaussian.
at::Tensor random_noise(int64_t nodes, double deviation, uint64_t seed, uint32_t draw) {
  at::Tensor noise = at::empty({nodes, 3});
  float* out = noise.mutable_data_ptr<float>();
  PhiloxStream stream(seed, draw, /*index=*/0xffffffff, DrawFor::rotation);
  for (int64_t i = 0; i < noise.numel(); ++i) {
    const double radius = std::sqrt(-2 * std::log((static_cast<double>(stream.word()) + 1) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * static_cast<double>(stream.word()) * 0x1p-32;
    out[i] = static_cast<float>(deviation * radius * std::cos(angle));
  }
  return noise;
}

}  // namespace

void augment_clouds(GraphSample& sample, const GraphDataOptions& options, int64_t vectors, uint64_t seed,
                    uint32_t draw) {
  const Rotation kind = kRotationNames.parse("open_graphs", "data.rotate", options.rotate);
  if (vectors == 0 || (kind == Rotation::none && options.jitter == 0)) return;
  const auto device = sample.features.device();
  const at::Tensor in_space = sample.features.narrow(1, 0, 3 * vectors);
  at::Tensor turned = in_space.unflatten(1, {vectors, 3});
  if (kind != Rotation::none) {
    const at::Tensor rotations = random_rotations(sample.graphs, kind, seed, draw).to(device);
    turned = at::matmul(turned, rotations.index_select(0, sample.membership).mT());
  }
  if (options.jitter > 0) {
    const at::Tensor noise = random_noise(turned.size(0), options.jitter, seed, draw).to(device).unsqueeze(1);
    turned =
        vectors == 1 ? turned + noise : at::cat({turned.narrow(1, 0, 1) + noise, turned.narrow(1, 1, vectors - 1)}, 1);
  }
  sample.features =
      at::cat({turned.flatten(1), sample.features.narrow(1, 3 * vectors, sample.features.size(1) - 3 * vectors)}, 1);
}

}  // namespace topomask
