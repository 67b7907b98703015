#include <ATen/ATen.h>

#include <array>
#include <filesystem>

#include "data/graphs/features.h"
#include "data/graphs/names.h"
#include "data/graphs/readers.h"

namespace topomask {
namespace {

using GraphsOpener = LoadedGraphs (*)(const GraphDataOptions&);

/// In the order of GraphKind.
constexpr std::array<GraphsOpener, kGraphKindNames.names.size()> kGraphsOpeners{
    open_tu,    open_citation, open_conllu, open_wordnet,     open_graph_file,
    open_motif, open_cycle,    open_meshes, open_radar_clouds};

}  // namespace

at::Tensor int64_tensor(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

void refuse_packed(const io::Origin& origin) {
  const std::string& path = origin.path;
  for (const char* end : {".tar.xz", ".tar.gz", ".tar.bz2", ".tar", ".tgz"}) {
    if (path.ends_with(end)) io::fail(origin, "archives by tar are not read; unpack it first: tar -xf ", path);
  }
  if (path.ends_with(".xz")) io::fail(origin, "xz files are not read; unpack it first: xz -dk ", path);
}

LoadedGraphs open_graphs(const GraphDataOptions& options) {
  options.check();
  const GraphKind kind = kGraphKindNames.parse(kOpenGraphs, "data.kind", options.kind);
  const bool generated = kind == GraphKind::motif || kind == GraphKind::cycle;
  TORCH_CHECK(generated || std::filesystem::exists(options.path), kOpenGraphs,
              ": data.path must be a file or folder of kind ", options.kind, ", got '", options.path, "'");
  LoadedGraphs loaded = kGraphsOpeners[static_cast<size_t>(kind)](options);
  if (!loaded.set.features.defined()) loaded.set.features = structural_features(loaded.set.graph, options);
  scale_features(loaded, options);
  return loaded;
}

}  // namespace topomask
