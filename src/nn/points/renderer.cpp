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

}  // namespace

PointRenderer::PointRenderer(const PointModelOptions& options)
    : options_(options),
      first_(register_module(
          "first", torch::nn::Linear(std::ssize(options.render_radii) * (options.features + 1), options.render_width))),
      second_(register_module("second", torch::nn::Linear(options.render_width, options.render_width))),
      density_(register_module("density", torch::nn::Linear(options.render_width, 1))),
      colour_(register_module("colour", torch::nn::Linear(options.render_width, 3))) {}

at::Tensor PointRenderer::slice(const PointCloud& cloud, const Rays& rays, const at::Tensor& jitter) {
  const at::Tensor& x = cloud.positions;
  const int64_t clouds = x.size(0), count = rays.origins.size(1), samples = options_.samples,
                k = std::min(options_.render_neighbours, x.size(1)), kernels = std::ssize(options_.render_radii),
                features = cloud.features.size(2);
  const at::ScalarType type = x.scalar_type();
  const double interval = (options_.far - options_.near) / static_cast<double>(samples);
  const at::Tensor places = at::arange(samples, x.options().requires_grad(false)) +
                            (jitter.defined() ? jitter.to(type) : at::full({1}, 0.5, x.options().requires_grad(false)));
  const at::Tensor depth = options_.near + places * interval;  // [S] or [B, R, S]
  const at::Tensor points = (rays.origins.unsqueeze(2) + rays.directions.unsqueeze(2) * depth.unsqueeze(-1))
                                .view({clouds, count * samples, 3});
  const PatternPtr nearest = nearest_particles(points, x, k);
  const at::Tensor apart =
      points.view({-1, 1, 3}) - x.flatten(0, 1).index_select(0, nearest->columns()).view({-1, k, 3});
  constexpr double kTiny = 1e-12;  // m²: the root has a gradient where a sample meets a particle
  const at::Tensor distance = (apart.square().sum(-1) + kTiny).sqrt();  // [rows, k]
  std::vector<at::Tensor> weights;
  for (int64_t c = 0; c < kernels; ++c) {
    const auto place = static_cast<size_t>(c);
    weights.push_back(
        (((distance - options_.render_radii[place]) / options_.render_bandwidths[place]).square() * -0.5).exp());
  }
  const at::Tensor w = at::stack(weights);   // [K, rows, k]
  const at::Tensor total = w.sum(-1, true);  // [K, rows, 1]
  const at::Tensor f = cloud.features.to(type).flatten(0, 1).expand({kernels, clouds * x.size(1), features});
  const at::Tensor seen = matmul(SparseMatrix{nearest, w.flatten(1)}, f) / (1 + total);  // [K, rows, F]
  const at::Tensor input = at::cat({seen, total / (1 + total)}, -1).permute({1, 0, 2}).flatten(1);
  const at::Tensor hidden = at::relu(topomask::forward(second_, at::relu(topomask::forward(first_, input))));
  const at::Tensor all = total.sum(0);  // [rows, 1]
  const at::Tensor raw = topomask::forward(density_, hidden).to(type);
  const at::Tensor density = at::softplus(raw) * (options_.density_scale * (all / (1 + all)));
  const at::Tensor colour = topomask::forward(colour_, hidden).to(type).sigmoid().view({clouds, count, samples, 3});
  const at::Tensor passed = density.view({clouds, count, samples}) * interval;  // optical depth of an interval
  const at::Tensor before = passed.cumsum(2) - passed;
  const at::Tensor share = (-before).exp() * -at::expm1(-passed);
  return (share.unsqueeze(-1) * colour).sum(2) + (1 - share.sum(2, true));  // over white
}

at::Tensor PointRenderer::forward(const PointCloud& cloud, const Rays& rays, const at::Tensor& jitter) {
  check_rays(cloud, rays, jitter, options_.samples);
  const int64_t clouds = cloud.positions.size(0), count = rays.origins.size(1);
  TORCH_CHECK(cloud.positions.size(1) >= 1, kRendererOp, ": the cloud must have a particle, got none");
  const int64_t at_once = std::max<int64_t>(1, options_.render_slice / std::max<int64_t>(1, clouds));
  if (count <= at_once) return slice(cloud, rays, jitter);
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < count; first += at_once) {
    const auto some = [&](const at::Tensor& of) {
      return of.defined() ? of.slice(1, first, std::min(count, first + at_once)) : of;
    };
    const Rays these{some(rays.origins), some(rays.directions)};
    const at::Tensor these_jitter = some(jitter);
    parts.push_back(recomputed(
        [this, these, these_jitter](const std::vector<at::Tensor>& in) {
          return std::vector<at::Tensor>{slice({in[0], in[1]}, these, these_jitter)};
        },
        {cloud.positions, cloud.features}, parameters())[0]);
  }
  return at::cat(parts, 1);
}

}  // namespace topomask
