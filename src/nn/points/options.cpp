#include "core/option_checks.h"
#include "topomask/nn/local_layer.h"
#include "topomask/nn/point_options.h"

namespace topomask {

void PointModelOptions::check(const std::string& origin) const {
  constexpr int64_t kMostPointWidth = int64_t{1} << 16;
  const OptionChecks check(origin);
  check.within("particles", particles, 1, int64_t{1} << 24);
  check.within("features", features, 1, kMostPointWidth);
  check.within("encoder_width", encoder_width, 1, kMostPointWidth);
  check.within("encoder_levels", encoder_levels, 1, 12);
  check.within("width", width, 1, kMostPointWidth);
  check.within("blocks", blocks, 1, 65536);
  check.that(heads >= 1 && width % heads == 0, "heads", "a divisor of width ", width, ", got ", heads);
  check.positive("mlp_ratio", mlp_ratio);
  check.that(mlp_ratio * static_cast<double>(width) >= 1 && mlp_ratio <= 65536, "mlp_ratio",
             "at least one hidden feature and at most 65536 widths, got ", mlp_ratio);
  check.not_negative("feature_offset", feature_offset, check.kLargestParameter);
  check.within("octaves", octaves, 0, 30);
  check.one_of("local", local, local_layer_names());
  check.within("neighbours", neighbours, 1, 32);
  check.within("hops", hops, 0, 30);
  check.within("walkers", walkers, 1, INT32_MAX);
  check.within("local_features", local_features, 1, kMostPointWidth);
  check.not_negative("decay", decay, check.kLargestParameter);
  check.positive("diffusion_time", diffusion_time, check.kLargestParameter);
  check.within("message_neighbours", message_neighbours, 1, 32);
  check.at_least("anchor_stride", anchor_stride, 1);
  check.positive("largest_step", largest_step, check.kLargestParameter);
  check.within("render_neighbours", render_neighbours, 1, 32);
  check.that(!render_radii.empty() && render_radii.size() == render_bandwidths.size(), "render_radii",
             "as many as render_bandwidths, ", render_bandwidths.size(), ", and at least one, got ",
             render_radii.size());
  for (const double radius : render_radii) check.not_negative("render_radii", radius, check.kLargestParameter);
  for (const double bandwidth : render_bandwidths)
    check.positive("render_bandwidths", bandwidth, check.kLargestParameter);
  check.within("render_width", render_width, 1, kMostPointWidth);
  check.within("guided", guided, 0, 32);
  check.positive("guided_spread", guided_spread, check.kLargestParameter);
  check.positive("guided_floor", guided_floor, check.kLargestParameter);
  check.that(!colour_features || features > 3, "features", "above 3, which are colours, got ", features);
  check.within("samples", samples, 1, 65536);
  check.positive("near", near, check.kLargestParameter);
  check.finite("far", far, check.kLargestParameter);
  check.that(far > near, "far", "> near = ", near, ", got ", far);
  check.positive("density_scale", density_scale, check.kLargestParameter);
  check.at_least("render_slice", render_slice, 1);
}

}  // namespace topomask
