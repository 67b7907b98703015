#include "data/graphs/clouds.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <numbers>

#include "data/graphs/readers.h"

namespace topomask {
namespace {

/// The edges of the cloud's nearest neighbours, both ends, in the cloud's own numbers.
void connect_nearest(Cloud& cloud, int64_t neighbours) {
  const int64_t points = cloud.near.size(0), k = std::min(neighbours, points - 1);
  const Graph graph = Graph::knn(cloud.near, {.k = k, .directed = true});
  cloud.source = at::arange(points, at::kInt).repeat_interleave(k);
  cloud.target = graph.columns();
}

struct Vector3 {
  double x = 0, y = 0, z = 0;

  Vector3 operator+(const Vector3& o) const { return {x + o.x, y + o.y, z + o.z}; }
  Vector3 operator-(const Vector3& o) const { return {x - o.x, y - o.y, z - o.z}; }
  Vector3 operator*(double s) const { return {x * s, y * s, z * s}; }
  double dot(const Vector3& o) const { return x * o.x + y * o.y + z * o.z; }
  Vector3 cross(const Vector3& o) const { return {y * o.z - z * o.y, z * o.x - x * o.z, x * o.y - y * o.x}; }
  double norm() const { return std::sqrt(dot(*this)); }
};

/// What the triangles around each vertex add up to.
struct Around {
  Vector3 normal, neighbours;  ///< the normal is weighted by areas
  double angles = 0, lengths = 0;
  int64_t ends = 0;  ///< of edges; an edge between two triangles counts twice
};

std::vector<Vector3> scaled_places(const SurfaceMesh& mesh) {
  std::vector<Vector3> places(static_cast<size_t>(mesh.vertices()));
  Vector3 middle;
  for (size_t i = 0; i < places.size(); ++i) {
    places[i] = {mesh.places[3 * i], mesh.places[3 * i + 1], mesh.places[3 * i + 2]};
    middle = middle + places[i] * (1. / static_cast<double>(places.size()));
  }
  double squares = 0;
  for (Vector3& place : places) {
    place = place - middle;
    squares += place.dot(place) / static_cast<double>(places.size());
  }
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 1;
  for (Vector3& place : places) place = place * scale;
  return places;
}

std::vector<Around> sums_around(const SurfaceMesh& mesh, const std::vector<Vector3>& places) {
  std::vector<Around> around(places.size());
  for (size_t t = 0; t < mesh.corners.size(); t += 3) {
    for (size_t c = 0; c < 3; ++c) {
      const auto at = [&](size_t corner) { return static_cast<size_t>(mesh.corners[t + (c + corner) % 3]); };
      Around& sum = around[at(0)];
      const Vector3 a = places[at(1)] - places[at(0)], b = places[at(2)] - places[at(0)], normal = a.cross(b);
      sum.normal = sum.normal + normal;
      sum.neighbours = sum.neighbours + places[at(1)] + places[at(2)];
      sum.angles += std::atan2(normal.norm(), a.dot(b));
      sum.lengths += a.norm() + b.norm();
      sum.ends += 2;
    }
  }
  return around;
}

}  // namespace

GraphSet pack_clouds(std::string name, std::vector<Cloud> clouds, int64_t neighbours) {
  at::parallel_for(0, std::ssize(clouds), 1, [&](int64_t first, int64_t last) {
    for (int64_t g = first; g < last; ++g) {
      Cloud& cloud = clouds[static_cast<size_t>(g)];
      if (!cloud.source.defined()) connect_nearest(cloud, neighbours);
    }
  });
  std::vector<int64_t> offsets{0}, labels;
  std::vector<at::Tensor> features, source, target;
  for (Cloud& cloud : clouds) {
    source.push_back(cloud.source.to(at::kLong) + offsets.back());
    target.push_back(cloud.target.to(at::kLong) + offsets.back());
    features.push_back(std::move(cloud.features));
    offsets.push_back(offsets.back() + features.back().size(0));
    labels.push_back(cloud.label);
  }
  TORCH_CHECK(offsets.back() <= std::numeric_limits<int32_t>::max(), kOpenGraphs, ": ", name,
              ": there must be fewer than 2^31 points in all, got ", offsets.back(),
              "; data.points takes some of each");
  return {
      .name = std::move(name),
      .graph = Graph::from_edges(offsets.back(), at::cat(source), at::cat(target), {}, {.self_loops = SelfLoops::drop}),
      .offsets = int64_tensor(offsets),
      .features = at::cat(features),
      .labels = int64_tensor(labels)};
}

at::Tensor mesh_features(const SurfaceMesh& mesh) {
  constexpr int64_t kColumns = 10;
  const std::vector<Vector3> places = scaled_places(mesh);
  const std::vector<Around> around = sums_around(mesh, places);
  double lengths = 0, ends = 0;
  for (const Around& sum : around) {
    lengths += sum.lengths;
    ends += static_cast<double>(sum.ends);
  }
  const double mean_length = lengths > 0 ? lengths / ends : 1;
  at::Tensor features = at::zeros({mesh.vertices(), kColumns});
  float* out = features.mutable_data_ptr<float>();
  for (size_t i = 0; i < places.size(); ++i, out += kColumns) {
    const Around& sum = around[i];
    const double size = sum.normal.norm();
    const Vector3 normal = sum.normal * (size > 0 ? 1 / size : 0);
    const auto set = [&](int64_t first, const Vector3& v) {
      out[first] = static_cast<float>(v.x);
      out[first + 1] = static_cast<float>(v.y);
      out[first + 2] = static_cast<float>(v.z);
    };
    set(0, places[i]);
    set(3, normal);
    out[6] = static_cast<float>(places[i].norm());
    if (sum.ends == 0) continue;  // a vertex without a triangle
    const double count = static_cast<double>(sum.ends), length = sum.lengths / count;
    out[7] = static_cast<float>((2 * std::numbers::pi - sum.angles) / std::numbers::pi);
    out[8] = length > 0 ? static_cast<float>(std::log(length / mean_length)) : 0;
    out[9] = static_cast<float>((places[i] - sum.neighbours * (1 / count)).dot(normal) / mean_length);
  }
  return features;
}

}  // namespace topomask
