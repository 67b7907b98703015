#pragma once

#include <ATen/ATen.h>

#include "topomask/data/episodes.h"

namespace topomask::testing {

/// An episode of random numbers in which everything that the format keeps differs.
inline Episode made_episode(uint64_t seed, int64_t frames = 3, int64_t side = 5, int64_t objects = 2) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto uniform = [&](at::IntArrayRef shape, at::ScalarType type) {
    return at::rand(shape, generator, at::TensorOptions(type));
  };
  Episode e{.kind = seed % 2 ? "push" : "lift", .seed = seed, .interval = 0.25};
  for (int64_t b = 0; b < objects; ++b) e.names.push_back("box " + std::to_string(b));
  const std::vector<int64_t> image{frames, 2, side, side + 1};
  e.rgb = at::randint(256, {frames, 2, side, side + 1, 3}, generator, at::kByte);
  e.depth = at::randint(65536, image, generator, at::kDouble).mul(1e-4).to(at::kFloat);
  e.ids = at::randint(kFirstObject + objects, image, generator, at::kByte);
  e.intrinsics = uniform({2, 3, 3}, at::kDouble) + 3 * at::eye(3, at::kDouble);
  e.poses = uniform({2, 4, 4}, at::kDouble);
  e.joints = uniform({frames, 8}, at::kFloat);
  e.actions = uniform({frames, 8}, at::kFloat);
  e.action_points = uniform({frames, 7, 3}, at::kFloat);
  e.bodies = uniform({frames, objects, 7}, at::kDouble) + 0.1;
  e.bodies.narrow(2, 3, 4).div_(e.bodies.narrow(2, 3, 4).norm(2, -1, true));
  return e;
}

/// An episode by formulas, which tests/fuzz/corpus/episodes/formula.episodes holds and the Python test knows too.
inline Episode formula_episode() {
  const auto count = [](at::IntArrayRef shape, at::ScalarType type) {
    return at::arange(c10::multiply_integers(shape), at::kDouble).reshape(shape).to(type);
  };
  Episode e{.kind = "push", .seed = 18446744073709551557U, .interval = 0.5, .names = {"box", "can"}};
  e.rgb = count({3, 2, 4, 5, 3}, at::kDouble).mul(7).remainder(256).to(at::kByte);
  e.depth = count({3, 2, 4, 5}, at::kDouble).mul(517).remainder(65536).mul(1e-4).to(at::kFloat);
  e.ids = count({3, 2, 4, 5}, at::kDouble).remainder(5).to(at::kByte);
  e.intrinsics = count({2, 3, 3}, at::kDouble) + 1;
  e.poses = count({2, 4, 4}, at::kDouble) / 8;
  e.joints = count({3, 8}, at::kFloat) / 16;
  e.actions = count({3, 8}, at::kFloat) / 4 - 2;
  e.action_points = count({3, 2, 3}, at::kFloat) / 32;
  e.bodies = at::cat(
      {count({3, 2, 3}, at::kDouble) / 64, at::ones({3, 2, 1}, at::kDouble), at::zeros({3, 2, 3}, at::kDouble)}, 2);
  return e;
}

}  // namespace topomask::testing
