#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>

#include "data/graphs/clouds.h"
#include "data/graphs/readers.h"
#include "data/graphs/splits.h"
#include "data/random_order.h"

namespace topomask {
namespace {

namespace fs = std::filesystem;

bool is_mesh_file(const fs::path& path) {
  return !mesh_extension(path.filename().string()).empty() && fs::is_regular_file(path);
}

std::vector<fs::path> sorted_entries(const fs::path& folder, bool (*wanted)(const fs::path&)) {
  std::vector<fs::path> entries;
  if (!fs::is_directory(folder)) return entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (wanted(entry.path())) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

struct MeshFiles {
  std::vector<std::string> classes, paths;
  std::vector<int64_t> labels, train, test;
};

/// CLASS/train/* and CLASS/test/*.
MeshFiles find_meshes(const io::Origin& origin) {
  MeshFiles files;
  for (const fs::path& folder :
       sorted_entries(origin.path, [](const fs::path& path) { return fs::is_directory(path); })) {
    const auto label = std::ssize(files.classes);
    for (const char* half : {"train", "test"}) {
      for (const fs::path& path : sorted_entries(folder / half, is_mesh_file)) {
        (half == std::string("train") ? files.train : files.test).push_back(std::ssize(files.paths));
        files.paths.push_back(path.string());
        files.labels.push_back(label);
      }
    }
    files.classes.push_back(folder.filename().string());
  }
  if (files.train.empty()) io::fail(origin, "expected meshes in CLASS/train and CLASS/test, .obj or .off, got none");
  return files;
}

Cloud read_cloud(const std::string& path, const GraphDataOptions& options, int64_t index) {
  const SurfaceMesh mesh = read_mesh({kOpenGraphs, path});
  Cloud cloud{.features = mesh_features(mesh)};
  if (options.edges == "given") {
    const at::Tensor corners = at::tensor(mesh.corners, at::kInt).view({mesh.triangles(), 3});
    cloud.source = corners.flatten();
    cloud.target = corners.roll(-1, 1).flatten();
    return cloud;
  }
  if (options.points > 0 && options.points < mesh.vertices()) {
    std::vector<int64_t> kept =
        random_order(mesh.vertices(), options.seed, static_cast<uint32_t>(index), DrawFor::points);
    kept.resize(static_cast<size_t>(options.points));
    std::sort(kept.begin(), kept.end());
    cloud.features = cloud.features.index_select(0, int64_tensor(kept));
  }
  cloud.near = cloud.features.narrow(1, 0, 3).contiguous();
  return cloud;
}

/// Moves a fraction of the training meshes of each class to validation.
GraphSplit hold_out_meshes(const MeshFiles& files, const GraphDataOptions& options) {
  std::vector<int64_t> labels;
  for (const int64_t mesh : files.train) labels.push_back(files.labels[static_cast<size_t>(mesh)]);
  GraphDataOptions training = options;
  training.test_fraction = 0;
  GraphSplit split = split_by_fraction(int64_tensor(labels), training);
  for (auto* part : {&split.train, &split.validation}) {
    for (int64_t& place : *part) place = files.train[static_cast<size_t>(place)];
  }
  split.test = files.test;
  return split;
}

}  // namespace

LoadedGraphs open_meshes(const GraphDataOptions& options) {
  const io::Origin origin{kOpenGraphs, options.path};
  refuse_packed(origin);
  const MeshFiles files = find_meshes(origin);
  std::vector<Cloud> clouds(files.paths.size());
  at::parallel_for(0, std::ssize(clouds), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const auto at = static_cast<size_t>(i);
      clouds[at] = read_cloud(files.paths[at], options, i);
      clouds[at].label = files.labels[at];
    }
  });
  GraphSet set =
      pack_clouds(fs::path(options.path).lexically_normal().stem().string(), std::move(clouds), options.neighbours);
  set.classes = files.classes;
  if (options.features == "given") {
    set.vectors = 2;  // places and normals
  } else {
    set.features = at::Tensor();
  }
  return {std::move(set), hold_out_meshes(files, options)};
}

}  // namespace topomask
