#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "nn/points/testing.h"
#include "support/compare.h"

namespace topomask {
namespace {

using at::Tensor;
using testing::close;
using testing::gradients;

/// From one viewpoint in each scene.
Rays random_rays(int64_t scenes, int64_t rays, at::ScalarType type = at::kDouble) {
  const Tensor along = at::randn({scenes, rays, 3}, type);
  return {at::rand({scenes, 1, 3}, type).expand({scenes, rays, 3}), along / along.square().sum(-1, true).sqrt(), 1};
}

/// A ray after the other, a sample after the other, with all pairs of distances.
Tensor plain_rendering(PointRenderer& renderer, const PointCloud& cloud, const Rays& rays, const Tensor& jitter,
                       const PointModelOptions& o) {
  const auto p = renderer.named_parameters();
  const auto linear = [&](const std::string& name, const Tensor& of) {
    return at::matmul(of, p[name + ".weight"].t()) + p[name + ".bias"];
  };
  const double interval = (o.far - o.near) / static_cast<double>(o.samples);
  std::vector<Tensor> colours;
  for (int64_t b = 0; b < rays.origins.size(0); ++b) {
    for (int64_t r = 0; r < rays.origins.size(1); ++r) {
      Tensor light = at::ones({}, at::kDouble), colour = at::zeros({3}, at::kDouble);
      for (int64_t s = 0; s < o.samples; ++s) {
        const double within = jitter.defined() ? jitter[b][r][s].item<double>() : 0.5;
        const Tensor at =
            rays.origins[b][r] + rays.directions[b][r] * (o.near + (static_cast<double>(s) + within) * interval);
        const Tensor all = ((cloud.positions[b] - at).square().sum(1) + 1e-12).sqrt();
        const Tensor nearest = all.argsort().slice(0, 0, o.render_neighbours);
        const Tensor d = all.index_select(0, nearest), f = cloud.features[b].index_select(0, nearest);
        std::vector<Tensor> seen;
        Tensor sum = at::zeros({}, at::kDouble);
        for (size_t c = 0; c < o.render_radii.size(); ++c) {
          const Tensor w = (((d - o.render_radii[c]) / o.render_bandwidths[c]).square() * -0.5).exp(), total = w.sum();
          seen.push_back(at::matmul(w, f) / (1 + total));
          seen.push_back((total / (1 + total)).unsqueeze(0));
          sum = sum + total;
        }
        const Tensor hidden = linear("second", linear("first", at::cat(seen)).relu()).relu();
        const Tensor density = at::softplus(linear("density", hidden)[0]) * o.density_scale * sum / (1 + sum);
        const Tensor kept = (-density * interval).exp();
        colour = colour + light * (1 - kept) * linear("colour", hidden).sigmoid();
        light = light * kept;
      }
      colours.push_back(colour + light);
    }
  }
  return at::stack(colours).view_as(rays.origins);
}

PointModelOptions wide_kernels() {
  PointModelOptions options = testing::small_options();
  options.render_bandwidths = {0.2, 0.1, 0.1, 0.3};  // samples are far from few particles
  options.density_scale = 3;
  options.guided = 0;
  options.colour_features = false;
  return options;
}

/// The same with guided samples and colour features.
Tensor plain_guided_rendering(PointRenderer& renderer, const PointCloud& cloud, const Rays& rays,
                              const PointModelOptions& o) {
  const auto p = renderer.named_parameters();
  const auto linear = [&](const std::string& name, const Tensor& of) {
    return at::matmul(of, p[name + ".weight"].t()) + p[name + ".bias"];
  };
  const auto least = [](const Tensor& of, double floor) { return of.min().clamp_min(floor * floor); };
  std::vector<Tensor> colours;
  for (int64_t b = 0; b < rays.origins.size(0); ++b) {
    for (int64_t r = 0; r < rays.origins.size(1); ++r) {
      const Tensor origin = rays.origins[b][r], along = rays.directions[b][r], apart = cloud.positions[b] - origin;
      const Tensor cosine = at::mv(apart, along) / apart.norm(2, {1});
      const Tensor passing = (-cosine).argsort().slice(0, 0, o.guided);
      const Tensor depth = at::mv(apart, along).index_select(0, passing);
      const Tensor from_ray = (apart.index_select(0, passing) - at::outer(depth, along)).square().sum(1);
      const Tensor width = o.guided_spread * o.guided_spread * least(from_ray, o.guided_floor);
      Tensor light = at::ones({}, at::kDouble), colour = at::zeros({3}, at::kDouble);
      const Tensor order = depth.argsort();
      for (int64_t s = 0; s < o.guided; ++s) {
        const auto i = order[s].item<int64_t>();
        if (depth[i].item<double>() < o.near || depth[i].item<double>() > o.far) continue;
        const Tensor squares = (cloud.positions[b] - origin - along * depth[i]).square().sum(1) + 1e-12;
        const Tensor nearest = squares.argsort().slice(0, 0, o.render_neighbours);
        const Tensor d2 = squares.index_select(0, nearest), f = cloud.features[b].index_select(0, nearest);
        std::vector<Tensor> seen;
        Tensor sum = at::zeros({}, at::kDouble);
        for (size_t c = 0; c < o.render_radii.size(); ++c) {
          const Tensor w = (((d2.sqrt() - o.render_radii[c]) / o.render_bandwidths[c]).square() * -0.5).exp();
          seen.push_back(at::matmul(w, f) / (1 + w.sum()));
          seen.push_back((w.sum() / (1 + w.sum())).unsqueeze(0));
          sum = sum + w.sum();
        }
        const Tensor hidden = linear("second", linear("first", at::cat(seen)).relu()).relu();
        const Tensor mean = at::matmul((d2 / least(d2, o.guided_floor) * -0.5).softmax(0), f).slice(0, 0, 3);
        const Tensor weight = ((from_ray[i] - from_ray.min()) / width * -0.5).exp();
        const Tensor kept = (-at::softplus(linear("density", hidden)[0]) * sum / (1 + sum) * weight).exp();
        colour = colour + light * (1 - kept) * (4 * (mean + linear("colour", hidden))).sigmoid();
        light = light * kept;
      }
      colours.push_back((colour + 1e-3) / (1 - light + 1e-3));
    }
  }
  return at::stack(colours).view(rays.origins.sizes());
}

TEST(PointRenderer, MatchesThePlainLoopWithAllGradients) {
  at::manual_seed(5);
  const PointModelOptions options = wide_kernels();
  PointRenderer renderer(options);
  testing::shake(renderer);
  PointCloud cloud = testing::random_cloud(2, 30, options.features);
  const Rays rays = random_rays(2, 7);
  for (const Tensor& jitter : {Tensor(), at::rand({2, 7, options.samples}, at::kDouble)}) {
    cloud.positions.requires_grad_(true);
    cloud.features.requires_grad_(true);
    const Tensor out = renderer.forward(cloud, rays, jitter),
                 expected = plain_rendering(renderer, cloud, rays, jitter, options);
    EXPECT_TRUE(close(out, expected, 1e-10));
    std::vector<Tensor> inputs = renderer.parameters();
    inputs.push_back(cloud.positions);
    inputs.push_back(cloud.features);
    const Tensor cotangent = at::randn_like(out);
    const auto actual = gradients(out, cotangent, inputs), wanted = gradients(expected, cotangent, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(close(actual[i], wanted[i], 1e-8, 1e-8)) << i;
  }
}

TEST(PointRenderer, GuidedSamplesMatchThePlainLoopWithAllGradients) {
  at::manual_seed(15);
  PointModelOptions options = testing::small_options();
  options.render_bandwidths = {0.2, 0.1, 0.1, 0.3};
  options.guided = 5;
  options.far = 0.8;  // beyond some particles
  PointRenderer renderer(options);
  testing::shake(renderer);
  PointCloud cloud = testing::random_cloud(2, 30, options.features);
  cloud.positions.requires_grad_(true);
  cloud.features.requires_grad_(true);
  const Rays rays = random_rays(2, 9);
  const Tensor out = renderer.forward(cloud, rays), expected = plain_guided_rendering(renderer, cloud, rays, options);
  EXPECT_TRUE(close(out, expected, 1e-10));
  std::vector<Tensor> inputs = renderer.parameters();
  inputs.push_back(cloud.positions);
  inputs.push_back(cloud.features);
  const Tensor cotangent = at::randn_like(out);
  const auto actual = gradients(out, cotangent, inputs), wanted = gradients(expected, cotangent, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(close(actual[i], wanted[i], 1e-8, 1e-8)) << i;
}

void expect_same_in_slices(PointModelOptions options) {
  PointRenderer whole(options);
  options.render_slice = 6;  // three rays of two scenes at once
  PointRenderer sliced(options);
  at::manual_seed(6);
  testing::shake(whole);
  {
    const at::NoGradGuard no_grad;
    sliced.to(at::kDouble);
    auto from = whole.parameters(), to = sliced.parameters();
    for (size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  }
  PointCloud cloud = testing::random_cloud(2, 30, options.features);
  cloud.positions.requires_grad_(true);
  cloud.features.requires_grad_(true);
  const Rays rays = random_rays(2, 7);
  const Tensor jitter = at::rand({2, 7, options.samples}, at::kDouble);
  const Tensor expected = whole.forward(cloud, rays, jitter), out = sliced.forward(cloud, rays, jitter);
  EXPECT_TRUE(close(out, expected, 1e-13));
  std::vector<Tensor> a = whole.parameters(), b = sliced.parameters();
  for (auto* list : {&a, &b}) {
    list->push_back(cloud.positions);
    list->push_back(cloud.features);
  }
  const Tensor cotangent = at::randn_like(out);
  const auto wanted = gradients(expected, cotangent, a), actual = gradients(out, cotangent, b);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(close(actual[i], wanted[i], 1e-11, 1e-9)) << i;
}

TEST(PointRenderer, SlicesGiveTheSamePictureAndGradients) {
  PointModelOptions options = wide_kernels();
  expect_same_in_slices(options);
  options.guided = 4;
  options.colour_features = true;
  expect_same_in_slices(options);
}

TEST(PointRenderer, EmptySpaceIsWhite) {
  const PointModelOptions options = testing::small_options();
  PointRenderer renderer(options);
  PointCloud cloud = testing::random_cloud(1, 10, options.features, at::kFloat);
  cloud.positions += 100;
  const Tensor out = renderer.forward(cloud, random_rays(1, 5, at::kFloat));
  EXPECT_TRUE(at::equal(out, at::ones_like(out)));
}

TEST(PointRenderer, ChecksItsArguments) {
  const PointModelOptions options = testing::small_options();
  PointRenderer renderer(options);
  const PointCloud cloud = testing::random_cloud(2, 10, options.features, at::kFloat);
  EXPECT_ERROR(renderer.forward(cloud, random_rays(1, 5, at::kFloat)), "PointRenderer: rays must be [B = 2, R, 3]");
  EXPECT_ERROR(renderer.forward(cloud, random_rays(2, 5, at::kFloat), at::rand({2, 5, 3})),
               "jitter must be [B, R, samples = 6]");
  Rays from_anywhere = random_rays(2, 5, at::kFloat);
  from_anywhere.viewpoints = 0;
  EXPECT_ERROR(renderer.forward(cloud, from_anywhere), "rays.viewpoints must divide R = 5 rays");
}

TEST(PixelEncoder, IsMadeOfItsPartsAndChecksSizes) {
  PointModelOptions options = testing::small_options();
  options.encoder_levels = 3;
  PixelEncoder encoder(options);
  const Tensor rgb = at::randint(0, 256, {2, 8, 12, 3}, at::kByte), depth = at::rand({2, 8, 12});
  const Tensor out = encoder.forward(rgb, depth);
  EXPECT_EQ(out.sizes(), (std::vector<int64_t>{2, 96, options.features}));
  EXPECT_TRUE(close(encoder.forward(rgb.to(at::kFloat) / 255, depth), out, 1e-6));
  EXPECT_TRUE(close(encoder.forward(rgb.slice(0, 1), depth.slice(0, 1)), out.slice(0, 1), 1e-4));
  EXPECT_ERROR(encoder.forward(rgb.slice(1, 0, 6), depth.slice(1, 0, 6)), "images must be multiples of 4 pixels");
  for (const Tensor& g : gradients(out, at::randn_like(out), encoder.parameters())) {
    EXPECT_GT(g.abs().max().item<double>(), 0);
  }
}

TEST(PointModel, ParticlesLieWhereTheirPixelsAre) {
  PointModelOptions options = testing::small_options();
  PointModel model(options, 1);
  const auto [k, pose] = testing::two_cameras(2);
  const Cameras cameras(k, pose, 4, 8, at::kFloat);
  const Tensor depth = at::rand({2, 2, 4, 8}) + 0.5, rgb = at::randint(0, 256, {2, 2, 4, 8, 3}, at::kByte);
  depth.index_put_({at::tensor({0}), at::tensor({1})}, at::zeros({1}));  // a camera that sees nothing
  const Tensor keys = at::stack({subsample_keys(1, 0, 64), subsample_keys(1, 1, 64)});
  const auto [cloud, pixels] = model.encode(rgb, depth, cameras, keys);
  EXPECT_EQ(cloud.positions.sizes(), (std::vector<int64_t>{2, options.particles, 3}));
  EXPECT_LT(pixels[0].max().item<int64_t>(), 32);
  const Tensor all = cameras.unproject(depth).flatten(1, 2);
  EXPECT_TRUE(at::equal(cloud.positions[1], all[1].index_select(0, pixels[1])));
}

/// Two cameras that look from different places at a wavy, coloured floor: colours, depths and cameras.
struct Floor {
  Cameras cameras;
  Tensor rgb, depth;  // [1, 2, H, W, 3] in [0, 1], [1, 2, H, W]
};
Tensor colours_of_places(const Tensor& x) {
  return (x * at::tensor({9.0, 7.0, 3.0}).to(x)).sin() * 0.3 +
         (x.slice(-1, 0, 1) * 13 + x.slice(-1, 1, 2) * 11).cos() * 0.2 + 0.5;
}
Floor coloured_floor(int64_t size) {
  const double focal = static_cast<double>(size);
  const Tensor k = at::tensor({focal, 0.0, focal / 2, 0.0, focal, focal / 2, 0.0, 0.0, 1.0}, at::kDouble)
                       .view({1, 1, 3, 3})
                       .repeat({1, 2, 1, 1});
  // Downwards, one turned by 90 degrees and shifted.
  const Tensor pose = at::zeros({1, 2, 4, 4}, at::kDouble);
  pose[0][0] =
      at::tensor({1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 1.0, 0.0, 0.0, 0.0, 1.0}, at::kDouble)
          .view({4, 4});
  pose[0][1] =
      at::tensor({0.0, -1.0, 0.0, 0.1, -1.0, 0.0, 0.0, 0.05, 0.0, 0.0, -1.0, 1.2, 0.0, 0.0, 0.0, 1.0}, at::kDouble)
          .view({4, 4});
  Cameras cameras(k, pose, size, size, at::kFloat);
  const Tensor depth = at::cat({at::full({1, 1, size, size}, 1.0), at::full({1, 1, size, size}, 1.2)}, 1);
  return {cameras, colours_of_places(cameras.unproject(depth)).view({1, 2, size, size, 3}), depth};
}

TEST(Cameras, ParticlesOfOneAreSeenByTheOtherInTheSameColours) {
  const Floor floor = coloured_floor(32);
  const Tensor places = floor.cameras.unproject(floor.depth), seen = floor.cameras.project(places.select(1, 0));
  const Tensor column = seen[0][1].select(1, 0).floor().to(at::kLong),
               row = seen[0][1].select(1, 1).floor().to(at::kLong);
  const Tensor inside = column.ge(0).logical_and(column.lt(32)).logical_and(row.ge(0)).logical_and(row.lt(32));
  ASSERT_GT(inside.sum().item<int64_t>(), 200);
  const Tensor there = floor.rgb[0][1].flatten(0, 1).index_select(0, (row * 32 + column).masked_select(inside));
  const Tensor here = floor.rgb[0][0].flatten(0, 1).index_select(0, inside.nonzero().flatten());
  EXPECT_LT((there - here).abs().mean().item<double>(), 0.07);  // within a pixel
  EXPECT_GT((there.roll(40, 0) - here).abs().mean().item<double>(), 0.2);
}

TEST(PointModel, ShowsBeforeAnyTrainingWhatItSees) {
  const Floor floor = coloured_floor(32);
  PointModelOptions options;
  options.encoder_width = 4;
  options.width = 8;
  options.blocks = 1;
  for (const auto& [particles, tolerance] : {std::pair<int64_t, double>{2048, 0.01}, {1024, 0.04}}) {
    options.particles = particles;
    PointModel model(options, 1);
    const at::NoGradGuard no_grad;
    const PointCloud cloud =
        model.encode(floor.rgb, floor.depth, floor.cameras, subsample_keys(1, 0, 2048).unsqueeze(0)).cloud;
    const Tensor out = model.renderer().forward(cloud, floor.cameras.rays(floor.cameras.all_pixels()));
    EXPECT_LT((out - floor.rgb.flatten(1, 3)).square().mean().sqrt().item<double>(), tolerance) << particles;
  }
}

TEST(PointOptions, AreCheckedByName) {
  PointModelOptions options = testing::small_options();
  options.far = 0.05;
  EXPECT_ERROR(PointModel(options, 1), "point model: far must be > near = 0.1, got 0.05");
  options = testing::small_options();
  options.render_radii = {0.1};
  EXPECT_ERROR(options.check("model."), "model.render_radii must be as many as render_bandwidths, 4");
  options = testing::small_options();
  options.heads = 3;
  EXPECT_ERROR(options.check(), "heads must be a divisor of width 8, got 3");
}

}  // namespace
}  // namespace topomask
