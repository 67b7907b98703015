#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// A model of the dynamics of point clouds (Whitney et al. 2024; Reid et al. 2024, appendix C.3): an encoder of images,
/// an Interlacer over the particles, a renderer. Numbers that the papers state are the defaults; depths and widths,
/// which they do not, are chosen here (docs/points.md).
struct PointModelOptions {
  int64_t particles = 32768;
  int64_t features = 16;
  int64_t encoder_width = 16;
  int64_t encoder_levels = 3;
  int64_t width = 128;
  int64_t blocks = 6;
  int64_t heads = 4;
  double mlp_ratio = 2;
  double feature_offset = 1e-3;
  int64_t octaves = 6;
  bool action_context = true;
  std::string local = "grf";
  int64_t neighbours = 3;
  int64_t hops = 3;
  int64_t walkers = 27;
  int64_t local_features = 32;
  double decay = 0.5;
  double diffusion_time = 1;
  int64_t message_neighbours = 16;
  int64_t anchor_stride = 8;
  double largest_step = 0.25;
  int64_t render_neighbours = 16;
  std::vector<double> render_radii{0, 0.01, 0.02, 0.05};
  std::vector<double> render_bandwidths{0.01, 0.01, 0.01, 0.05};
  int64_t render_width = 64;
  int64_t guided = 8;
  double guided_spread = 0.7;
  double guided_floor = 0.002;
  bool colour_features = true;
  int64_t samples = 64;
  double near = 0.1;
  double far = 2;
  double density_scale = 100;
  int64_t render_slice = 8192;
  bool recompute = false;

  /// Refuses a field that is out of its range, by its name. `origin` starts the text. PointModel and configuration
  /// files call it.
  void check(const std::string& origin = "point model: ") const;
};

/// Names and explains every field: files, command lines and help come from here.
template <class Visitor>
void visit(Visitor& v, PointModelOptions& o) {
  v("particles", o.particles, "particles of a time step, drawn from the pixels of all cameras");
  v("features", o.features, "features of a pixel and of a particle");
  v("encoder_width", o.encoder_width, "channels of the U-Net at full resolution; twice as many at each level below");
  v("encoder_levels", o.encoder_levels, "resolutions of the U-Net; images are multiples of 2^(levels - 1)");
  v("width", o.width, "features of a token of the Interlacer");
  v("blocks", o.blocks, "blocks of the Interlacer: unmasked attention, local layer, perceptron");
  v("heads", o.heads, "heads of the unmasked attention; they divide width");
  v("mlp_ratio", o.mlp_ratio, "hidden features of the perceptron of a block, in widths");
  v("feature_offset", o.feature_offset, "added to relu features, so that no row of attention is zero");
  v("octaves", o.octaves, "frequencies of the encoding of positions, 1, 2, 4, ... half periods a metre");
  v("action_context", o.action_context, "particles know the nearest point of the arm, and where it goes next");
  v("local", o.local, "local layer: none, unmasked, message_passing, grf, exact, neighbours, diffusion");
  v("neighbours", o.neighbours, "nearest neighbours of a particle in the graph of masks");
  v("hops", o.hops, "hops of the walks of grf, highest power of exact");
  v("walkers", o.walkers, "repelling walkers of grf; a multiple of neighbours^hops needs no sampling");
  v("local_features", o.local_features, "features of queries and keys of a local layer, one head");
  v("decay", o.decay, "functions of hops start at exp(-decay k)");
  v("diffusion_time", o.diffusion_time, "where the time of diffusion starts");
  v("message_neighbours", o.message_neighbours, "message_passing: neighbours that send to an anchor");
  v("anchor_stride", o.anchor_stride, "message_passing: every so many-th particle is an anchor");
  v("largest_step", o.largest_step, "metres that a particle moves at most along an axis in a step");
  v("render_neighbours", o.render_neighbours, "renderer: nearest particles of a sample");
  v("render_radii", o.render_radii, "renderer: radii of the annular kernels in metres");
  v("render_bandwidths", o.render_bandwidths, "renderer: their bandwidths in metres");
  v("render_width", o.render_width, "renderer: hidden features");
  v("guided", o.guided, "renderer: samples of a ray, at the depths of the particles nearest to it; 0: even ones");
  v("guided_spread", o.guided_spread,
    "renderer: width of the guided samples' weights, in distances of the nearest one");
  v("guided_floor", o.guided_floor, "renderer: that distance is at least so many metres");
  v("colour_features", o.colour_features, "the first three features are the colours of pixels, and rendered as such");
  v("samples", o.samples, "renderer: even samples of a ray, between near and far");
  v("near", o.near, "renderer: distance of the first sample in metres");
  v("far", o.far, "renderer: distance of the last one");
  v("density_scale", o.density_scale, "renderer: density, per metre, that an output of 1 stands for");
  v("render_slice", o.render_slice,
    "renderer: rays at once; more are rendered in slices, computed again for gradients");
  v("recompute", o.recompute, "keep only the particles of a rollout's steps and compute the rest again for gradients");
}

}  // namespace topomask
