#pragma once

#include "fuzz/harness.h"
#include "topomask/graph_io.h"

namespace topomask::fuzz {

/// With the default limits a dozen bytes may ask for 2²⁴ isolated nodes, which takes no more memory than promised but
/// long enough to leave no time for other inputs.
inline ReadOptions small_graphs(uint8_t choice) {
  return {.directed = (choice & 1) != 0,
          .duplicates = static_cast<Duplicates>(choice / 2 % 3),
          .self_loops = static_cast<SelfLoops>(choice / 6 % 3),
          .limits = {.max_nodes = 1 << 20, .max_edges = 1 << 20, .max_isolated = 1 << 12},
          .weight_dtype = (choice & 64) != 0 ? at::kDouble : at::kFloat};
}

/// Reads the input as a graph file, with options that follow from its last byte, so that the file is the input as it
/// is.
template <class Reader>
void read_graph_file(const uint8_t* data, size_t size, const Reader& reader) {
  static MemoryFile file("graph");
  const std::string& path = file.put(text_of(data, size));
  const ReadOptions options = small_graphs(size == 0 ? 0 : data[size / 2]);
  run(path, [&] { check_graph(reader(path, options)); });
}

}  // namespace topomask::fuzz
