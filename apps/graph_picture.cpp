#include "graph_picture.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/philox.h"
#include "report/html.h"

namespace topomask::apps {
namespace {

constexpr int64_t kMostNodes = 2000;

using Point = std::array<double, 2>;

/// The first places: uniform in the unit square.
std::vector<Point> scattered(int64_t nodes, uint64_t seed) {
  std::vector<Point> places(static_cast<size_t>(nodes));
  for (size_t i = 0; i < places.size(); ++i) {
    const PhiloxWords words = philox({static_cast<uint32_t>(i), 0, 0, 0x4C41}, philox_key(seed));
    places[i] = {words.a / 4294967296.0, words.b / 4294967296.0};
  }
  return places;
}

/// One round: every node moves by its force, at most by `reach`.
void relax(std::vector<Point>& places, const Graph& graph, double length, double reach) {
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = graph.columns().const_data_ptr<int32_t>();
  std::vector<Point> forces(places.size(), Point{0, 0});
  for (size_t i = 0; i < places.size(); ++i) {
    for (size_t j = 0; j < places.size(); ++j) {
      if (i == j) continue;
      const double dx = places[i][0] - places[j][0], dy = places[i][1] - places[j][1];
      const double push = length * length / std::max(dx * dx + dy * dy, 1e-9);
      forces[i][0] += dx * push;
      forces[i][1] += dy * push;
    }
    for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
      const auto j = static_cast<size_t>(column[e]);
      const double dx = places[i][0] - places[j][0], dy = places[i][1] - places[j][1];
      const double pull = std::hypot(dx, dy) / length;
      forces[i][0] -= dx * pull;
      forces[i][1] -= dy * pull;
    }
    // A weak pull to the middle keeps the parts of a graph that is not connected together.
    forces[i][0] -= (places[i][0] - 0.5) * length;
    forces[i][1] -= (places[i][1] - 0.5) * length;
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const double size = std::hypot(forces[i][0], forces[i][1]);
    const double scale = size > reach ? reach / size : 1;
    places[i][0] += forces[i][0] * scale;
    places[i][1] += forces[i][1] * scale;
  }
}

/// Pale blue to deep blue; readable on light and dark ground.
std::string shade(double share) {
  const auto mix = [share](int from, int to) { return static_cast<int>(std::lround(from + share * (to - from))); };
  return format("rgb(%d,%d,%d)", mix(200, 200), mix(205, 60), mix(215, 20));
}

}  // namespace

at::Tensor spring_layout(const Graph& given, uint64_t seed, int rounds) {
  TORCH_CHECK(given.num_nodes() <= kMostNodes, "spring_layout: the graph must have at most ", kMostNodes,
              " nodes, got ", given.num_nodes());
  const Graph graph = given.to(at::kCPU);
  const int64_t nodes = graph.num_nodes();
  std::vector<Point> places = scattered(nodes, seed);
  const double length = 0.8 / std::sqrt(static_cast<double>(std::max<int64_t>(nodes, 1)));
  for (int round = 0; round < rounds; ++round) relax(places, graph, length, 0.1 * (1 - round / (rounds + 1.0)));
  at::Tensor result = at::empty({nodes, 2}, at::kDouble);
  for (int64_t i = 0; i < nodes; ++i) {
    for (int64_t axis = 0; axis < 2; ++axis) {
      result.mutable_data_ptr<double>()[2 * i + axis] = places[static_cast<size_t>(i)][static_cast<size_t>(axis)];
    }
  }
  if (nodes == 0) return result;
  const at::Tensor low = std::get<0>(result.min(0)), high = std::get<0>(result.max(0));
  return (result - low) / (high - low).max().clamp_min(1e-9);  // one scale for both axes
}

std::string graph_picture(const Graph& given, const at::Tensor& places, const at::Tensor& brightness,
                          const GraphPictureOptions& options) {
  const Graph graph = given.to(at::kCPU);
  const int64_t nodes = graph.num_nodes();
  TORCH_CHECK(places.sizes() == at::IntArrayRef({nodes, 2}), "graph_picture: places must be [", nodes, ", 2], got ",
              places.sizes());
  const double radius =
      options.node_radius > 0 ? options.node_radius : std::clamp(60.0 / std::sqrt(nodes + 1.0), 2.0, 8.0);
  const double margin = radius + 3, span = options.size - 2 * margin;
  const at::Tensor at_pixel = (places.to(at::kCPU, at::kDouble) * span + margin).contiguous();
  const auto* pixel = at_pixel.const_data_ptr<double>();
  at::Tensor shares = brightness.defined() ? brightness.to(at::kCPU, at::kDouble) : at::full({nodes}, 0.6, at::kDouble);
  if (brightness.defined() && nodes > 0) shares = (shares / shares.max().clamp_min(1e-300)).clamp(0, 1);
  shares = shares.contiguous();
  std::string svg = format(
      "<svg role=\"img\" aria-label=\"%s\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
      "xmlns=\"http://www.w3.org/2000/svg\">\n",
      escape(options.title).c_str(), options.size, options.size, options.size, options.size);
  svg += "<g stroke=\"#8a8f98\" stroke-width=\"1\" stroke-opacity=\"0.7\">\n";
  const int64_t* offset = graph.offsets().const_data_ptr<int64_t>();
  const int32_t* column = graph.columns().const_data_ptr<int32_t>();
  for (int64_t i = 0; i < nodes; ++i) {
    for (int64_t e = offset[i]; e < offset[i + 1]; ++e) {
      const int64_t j = column[e];
      if (j <= i && !graph.directed()) continue;
      svg += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", pixel[2 * i], pixel[2 * i + 1],
                    pixel[2 * j], pixel[2 * j + 1]);
    }
  }
  svg += "</g>\n<g>\n";
  for (int64_t i = 0; i < nodes; ++i) {
    const bool marked = i == options.marked;
    svg += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"%s/>", pixel[2 * i], pixel[2 * i + 1],
                  marked ? 1.3 * radius : radius, shade(shares.const_data_ptr<double>()[i]).c_str(),
                  marked ? " stroke=\"#1f6feb\" stroke-width=\"2.5\"" : "");
  }
  return svg + "</g>\n</svg>";
}

std::string side_by_side(const std::vector<std::string>& pictures, int64_t across, int size) {
  TORCH_CHECK(across >= 1, "side_by_side: across must be >= 1, got ", across);
  const auto count = std::ssize(pictures);
  const auto columns = static_cast<int>(std::min<int64_t>(across, std::max<int64_t>(count, 1)));
  const auto rows = static_cast<int>((count + columns - 1) / columns);
  std::string svg =
      format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n", columns * size, rows * size);
  for (int i = 0; i < static_cast<int>(count); ++i) {
    svg += format("<g transform=\"translate(%d %d)\">", i % columns * size, i / columns * size) +
           pictures[static_cast<size_t>(i)] + "</g>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace topomask::apps
