#include <ATen/ATen.h>

#include <algorithm>

#include "core/checks.h"
#include "nn/layers.h"
#include "nn/points/checkpoint.h"
#include "ops/nearest_neighbours/op.h"
#include "topomask/nn/point_model.h"
#include "topomask/sparse.h"

namespace topomask {
namespace {

constexpr const char* kRendererOp = "PointRenderer";

void check_rays(const PointCloud& cloud, const Rays& rays, const at::Tensor& jitter, int64_t samples) {
  const at::Tensor& x = cloud.positions;
  TORCH_CHECK(x.dim() == 3 && x.size(2) == 3 && cloud.features.dim() == 3 &&
                  cloud.features.sizes().slice(0, 2) == x.sizes().slice(0, 2),
              kRendererOp, ": the cloud must be [B, N, 3] and [B, N, F], got ", describe(x), " and ",
              describe(cloud.features));
  TORCH_CHECK(rays.origins.dim() == 3 && rays.origins.size(0) == x.size(0) && rays.origins.size(2) == 3 &&
                  rays.directions.sizes() == rays.origins.sizes(),
              kRendererOp, ": rays must be [B = ", x.size(0), ", R, 3], got ", describe(rays.origins), " and ",
              describe(rays.directions));
  TORCH_CHECK(!jitter.defined() || (jitter.dim() == 3 && jitter.size(0) == x.size(0) &&
                                    jitter.size(1) == rays.origins.size(1) && jitter.size(2) == samples),
              kRendererOp, ": jitter must be [B, R, samples = ", samples, "], got ", describe(jitter));
}

/// The nearest particles of samples [B, Q, 3], a row each over the particles of all clouds.
PatternPtr nearest_particles(const at::Tensor& samples, const at::Tensor& positions, int64_t k) {
  const at::Tensor found =
      ops::nearest_neighbours::find_in_clouds(samples.detach(), positions.detach(), k, /*exclude_self=*/false);
  const int64_t clouds = positions.size(0), particles = positions.size(1), rows = clouds * samples.size(1);
  const at::Tensor first = at::arange(clouds, found.options()).mul_(particles).view({clouds, 1, 1});
  const at::Tensor columns = std::get<0>((found + first).sort(2)).flatten();
  const at::Tensor offsets = at::arange(rows + 1, found.options().dtype(at::kLong)).mul_(k);
  return std::make_shared<SparsePattern>(rows, clouds * particles, offsets, columns);
}

/// The particles that pass nearest to each ray as its origin sees them, int64 [B, R, m]: nearest directions.
at::Tensor passing_particles(const at::Tensor& positions, const Rays& rays, int64_t m) {
  const int64_t clouds = positions.size(0), count = rays.origins.size(1), views = rays.viewpoints;
  TORCH_CHECK(views >= 1 && count % views == 0, kRendererOp, ": rays.viewpoints must divide R = ", count,
              " rays for guided samples, got ", views);
  const at::Tensor origins = rays.origins.reshape({clouds, views, -1, 3}).select(2, 0).detach();
  const at::Tensor apart = positions.detach().unsqueeze(1) - origins.unsqueeze(2);  // [B, V, N, 3]
  constexpr double kTiny = 1e-12;  // a particle at the origin has no direction
  const at::Tensor towards = apart / (apart.square().sum(-1, true) + kTiny).sqrt();
  return ops::nearest_neighbours::find_in_clouds(rays.directions.detach().reshape({clouds * views, -1, 3}),
                                                 towards.flatten(0, 1), m, /*exclude_self=*/false)
      .view({clouds, count, m})
      .to(at::kLong);
}

}  // namespace

PointRenderer::PointRenderer(const PointModelOptions& options)
    : options_(options),
      first_(register_module(
          "first", torch::nn::Linear(std::ssize(options.render_radii) * (options.features + 1), options.render_width))),
      second_(register_module("second", torch::nn::Linear(options.render_width, options.render_width))),
      density_(register_module("density", torch::nn::Linear(options.render_width, 1))),
      colour_(register_module("colour", torch::nn::Linear(options.render_width, 3))) {
  const at::NoGradGuard no_grad;
  // The first picture shows the particles as they are: ln 2 of optical depth each, in their own colours.
  for (const torch::nn::Linear& layer :
       {options.guided > 0 ? density_ : nullptr, options.colour_features ? colour_ : nullptr}) {
    if (!layer) continue;
    layer->weight.zero_();
    layer->bias.zero_();
  }
}

PointRenderer::Samples PointRenderer::even_samples(const Rays& rays, const at::Tensor& jitter) const {
  const at::TensorOptions plain = rays.origins.options().requires_grad(false);
  const double interval = (options_.far - options_.near) / static_cast<double>(options_.samples);
  const at::Tensor places =
      at::arange(options_.samples, plain) + (jitter.defined() ? jitter.to(plain.dtype()) : at::full({1}, 0.5, plain));
  const at::Tensor depth = options_.near + places * interval;  // [S] or [B, R, S]
  return {rays.origins.unsqueeze(2) + rays.directions.unsqueeze(2) * depth.unsqueeze(-1),
          at::full({1, 1, 1}, interval * options_.density_scale, plain)};
}

PointRenderer::Samples PointRenderer::guided_samples(const at::Tensor& positions, const Rays& rays,
                                                     const at::Tensor& passing) const {
  const int64_t clouds = positions.size(0), count = passing.size(1), m = passing.size(2);
  const at::Tensor apart =
      positions.gather(1, passing.reshape({clouds, count * m, 1}).expand({-1, -1, 3})).view({clouds, count, m, 3}) -
      rays.origins.unsqueeze(2);
  const at::Tensor along = rays.directions.unsqueeze(2);
  at::Tensor depth = (apart * along).sum(-1);  // [B, R, m]
  const at::Tensor order = std::get<1>(depth.detach().sort(2));
  at::Tensor from_ray = (apart - along * depth.unsqueeze(-1)).square().sum(-1);  // ρ²
  const at::Tensor least = from_ray.amin(2, /*keepdim=*/true);
  // Not by the root: a ray may meet a particle.
  const at::Tensor width = least.clamp_min(options_.guided_floor * options_.guided_floor) *
                           (options_.guided_spread * options_.guided_spread);
  depth = depth.gather(2, order);
  const at::Tensor inside = depth.ge(options_.near).logical_and(depth.le(options_.far));
  const at::Tensor weight = ((from_ray.gather(2, order) - least) / width * -0.5).exp() * inside;
  return {rays.origins.unsqueeze(2) + along * depth.unsqueeze(-1), weight};
}

at::Tensor PointRenderer::slice(const PointCloud& cloud, const Rays& rays, const at::Tensor& jitter,
                                const at::Tensor& passing) {
  const at::Tensor& x = cloud.positions;
  const bool guided = passing.defined(), coloured = options_.colour_features;
  const Samples at = guided ? guided_samples(x, rays, passing) : even_samples(rays, jitter);
  const int64_t clouds = x.size(0), count = rays.origins.size(1), samples = at.points.size(2),
                k = std::min(options_.render_neighbours, x.size(1)), kernels = std::ssize(options_.render_radii),
                features = cloud.features.size(2);
  const at::ScalarType type = x.scalar_type();
  const at::Tensor points = at.points.reshape({clouds, count * samples, 3});
  const PatternPtr nearest = nearest_particles(points, x, k);
  const at::Tensor apart =
      points.view({-1, 1, 3}) - x.flatten(0, 1).index_select(0, nearest->columns()).view({-1, k, 3});
  constexpr double kTiny = 1e-12;  // m²: the root has a gradient where a sample meets a particle
  const at::Tensor squares = apart.square().sum(-1) + kTiny;  // [rows, k]
  const at::Tensor distance = squares.sqrt();
  std::vector<at::Tensor> weights;
  for (int64_t c = 0; c < kernels; ++c) {
    const auto place = static_cast<size_t>(c);
    weights.push_back(
        (((distance - options_.render_radii[place]) / options_.render_bandwidths[place]).square() * -0.5).exp());
  }
  const at::Tensor total = at::stack(weights).sum(-1, true);  // [K, rows, 1]
  if (coloured) {  // one more kernel, as wide as the nearest particle is far, with weights that sum to 1
    const at::Tensor width = squares.amin(1, true).clamp_min(options_.guided_floor * options_.guided_floor);
    weights.push_back((squares / width * -0.5).softmax(1));
  }
  const at::Tensor w = at::stack(weights);  // [K or K + 1, rows, k]
  const at::Tensor f = cloud.features.to(type).flatten(0, 1).expand({w.size(0), clouds * x.size(1), features});
  const at::Tensor sums = matmul(SparseMatrix{nearest, w.flatten(1)}, f);  // [K or K + 1, rows, F]
  const at::Tensor input =
      at::cat({sums.narrow(0, 0, kernels) / (1 + total), total / (1 + total)}, -1).permute({1, 0, 2}).flatten(1);
  const at::Tensor hidden = at::relu(topomask::forward(second_, at::relu(topomask::forward(first_, input))));
  const at::Tensor all = total.sum(0);  // [rows, 1]
  const at::Tensor density = at::softplus(topomask::forward(density_, hidden).to(type)) * (all / (1 + all));
  at::Tensor hue = topomask::forward(colour_, hidden).to(type);
  hue = coloured ? colour_of_feature(sums[kernels].narrow(1, 0, 3) + hue) : hue.sigmoid();
  const at::Tensor colour = hue.view({clouds, count, samples, 3});
  const at::Tensor passed = density.view({clouds, count, samples}) * at.lengths;  // optical depths
  const at::Tensor before = passed.cumsum(2) - passed;
  const at::Tensor share = (-before).exp() * -at::expm1(-passed), taken = share.sum(2, true);
  const at::Tensor seen = (share.unsqueeze(-1) * colour).sum(2);
  if (!guided) return seen + (1 - taken);  // over white
  // Guided samples stand for the surfaces there are, however little light they take: white is what is left of a ray
  // that nothing passes.
  constexpr double kWhite = 1e-3;
  return (seen + kWhite) / (taken + kWhite);
}

at::Tensor PointRenderer::forward(const PointCloud& cloud, const Rays& rays, const at::Tensor& jitter) {
  check_rays(cloud, rays, jitter, options_.samples);
  const int64_t clouds = cloud.positions.size(0), count = rays.origins.size(1);
  TORCH_CHECK(cloud.positions.size(1) >= 1, kRendererOp, ": the cloud must have a particle, got none");
  // Before slices are cut, which mix the rays of viewpoints.
  const at::Tensor passing =
      options_.guided > 0 ? passing_particles(cloud.positions, rays, std::min(options_.guided, cloud.positions.size(1)))
                          : at::Tensor();
  const int64_t at_once = std::max<int64_t>(1, options_.render_slice / std::max<int64_t>(1, clouds));
  if (count <= at_once) return slice(cloud, rays, jitter, passing);
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < count; first += at_once) {
    const auto some = [&](const at::Tensor& of) {
      return of.defined() ? of.slice(1, first, std::min(count, first + at_once)) : of;
    };
    const Rays these{some(rays.origins), some(rays.directions)};
    const at::Tensor these_jitter = some(jitter), these_passing = some(passing);
    parts.push_back(recomputed(
        [this, these, these_jitter, these_passing](const std::vector<at::Tensor>& in) {
          return std::vector<at::Tensor>{slice({in[0], in[1]}, these, these_jitter, these_passing)};
        },
        {cloud.positions, cloud.features}, parameters())[0]);
  }
  return at::cat(parts, 1);
}

}  // namespace topomask
