#include <algorithm>
#include <cctype>
#include <string>

#include "io/origin.h"
#include "topomask/graph_io.h"

namespace topomask {

Graph read_graph(const std::string& path, const ReadOptions& options) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.ends_with(".npz")) return read_npz(path, options);
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  const auto ends_in_any = [&](std::initializer_list<const char*> extensions) {
    return std::any_of(extensions.begin(), extensions.end(), [&](const char* e) { return name.ends_with(e); });
  };
  if (ends_in_any({".txt", ".edges", ".el"})) return read_snap(path, options);
  if (ends_in_any({".graph", ".metis"})) return read_metis(path, options);
  if (ends_in_any({".mtx"})) return read_matrix_market(path, options);
  io::fail({"read_graph", path}, "the extension must be one of .txt .edges .el (SNAP), .graph .metis (METIS), ",
           ".mtx (Matrix Market), each with or without .gz, or .npz");
}

}  // namespace topomask
