#include "tasks/points/cloud_distance.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ops/nearest_neighbours/op.h"
#include "topomask/nn/point_model.h"

namespace topomask {
namespace {

constexpr double kMetresPerColour = 0.2, kNoDistance = 0.002;

/// Mean distance of the queries [B, Q, D] that `count`, bool [B, Q], to the nearest of points [B, P, D], differentiable
/// in both; 0 where none counts.
at::Tensor mean_distance(const at::Tensor& queries, const at::Tensor& points, const at::Tensor& count) {
  const at::Tensor nearest =
      ops::nearest_neighbours::find_in_clouds(queries.detach().contiguous(), points.detach().contiguous(), 1,
                                              /*exclude_self=*/false)
          .to(at::kLong)
          .expand({-1, -1, points.size(2)});
  const at::Tensor squares = (queries - points.gather(1, nearest)).square().sum(-1);
  const at::Tensor distance = (squares + kNoDistance * kNoDistance).sqrt() - kNoDistance;
  return (distance * count).sum() / count.sum().clamp_min(1);
}

/// points [B, P, D] with a valid one of the same cloud in place of each that is not `valid`, bool [B, P]: the shape is
/// kept, so that nothing is read back from a GPU.
at::Tensor only_valid(const at::Tensor& points, const at::Tensor& valid) {
  const at::Tensor one = valid.to(at::kInt).argmax(1, /*keepdim=*/true).unsqueeze(2).expand({-1, -1, points.size(2)});
  return at::where(valid.unsqueeze(2), points, points.gather(1, one));
}

}  // namespace

at::Tensor mean_length(const at::Tensor& vectors) {
  constexpr double kNoLength = 5e-4;
  return ((vectors.square().sum(-1) + kNoLength * kNoLength).sqrt() - kNoLength).mean();
}

at::Tensor cloud_distance(const PointCloud& predicted, const SceneBatch& batch, bool coloured, int64_t points) {
  const auto with_colours = [&](const at::Tensor& positions, const at::Tensor& colours) {
    return coloured ? at::cat({positions, colours * kMetresPerColour}, -1) : positions;
  };
  std::vector<at::Tensor> clouds, asked, seen, asked_seen;  // a depth of 0 has seen nothing
  for (int64_t s = 0; s < batch.steps(); ++s) {
    const at::Tensor places = batch.cameras.unproject(batch.next_depth[s]);  // [B, C, P, 3]
    const at::Tensor colours = batch.next_rgb[s].to(places.scalar_type()).flatten(2, 3) / 255;
    clouds.push_back(with_colours(places, colours).flatten(1, 2));
    const at::Tensor pixels = batch.pixels[s].unsqueeze(-1).expand({-1, -1, -1, 3});  // [B, C, R, 3]
    const at::Tensor valid = batch.next_depth[s].gt(0).flatten(2);                    // [B, C, P]
    seen.push_back(valid.flatten(1));
    asked_seen.push_back(valid.gather(2, batch.pixels[s]).flatten(1));
    asked.push_back(with_colours(places.gather(2, pixels), colours.gather(2, pixels)).flatten(1, 2));
  }
  const at::Tensor own = with_colours(
      predicted.positions,
      coloured ? colour_of_feature(predicted.features.narrow(2, 0, 3)).to(predicted.positions.scalar_type())
               : at::Tensor());
  const at::Tensor found = mean_distance(at::cat(asked), own, at::cat(asked_seen));
  if (points == 0) return 0.5 * found;
  const at::Tensor some = own.narrow(1, 0, std::min(points, own.size(1)));
  const at::Tensor valid = at::cat(seen), any = valid.any(1, /*keepdim=*/true).expand({-1, some.size(1)});
  return 0.5 * (found + mean_distance(some, only_valid(at::cat(clouds), valid), any));
}

}  // namespace topomask
