#pragma once

#include <cstdint>
#include <vector>

#include "io/origin.h"
#include "topomask/graph_io.h"

namespace topomask::io {

/// What a reader gathers: 0-based ends of each edge, and a weight each or none at all.
struct EdgeList {
  std::vector<int32_t> source;
  std::vector<int32_t> target;
  std::vector<double> weights;

  int64_t size() const { return static_cast<int64_t>(source.size()); }
  void add(int64_t from, int64_t to) {
    source.push_back(static_cast<int32_t>(from));
    target.push_back(static_cast<int32_t>(to));
  }
};

/// Refuses limits below 0 and weights that are neither float32 nor float64.
void check_options(const Origin& origin, const ReadOptions& options);

/// Warns through options.warn, or on stderr, where ids begin at 1 although `one_based` is not set.
void warn_if_one_based(const Origin& origin, int64_t smallest, int64_t largest, const ReadOptions& options);

/// The largest number of nodes that limits and int32 columns allow.
int64_t most_nodes(const ReadLimits& limits);
/// " (ReadLimits::max_nodes)" and the like, so that the user knows what to raise.
std::string beyond_nodes(int64_t nodes, const ReadLimits& limits);
std::string beyond_edges(int64_t edges, const ReadLimits& limits);

/// Formats where nodes cost no bytes: a short file must not make a graph of billions of empty rows.
void check_isolated(const Origin& origin, int64_t nodes, int64_t edges, const ReadLimits& limits);

/// Graph::from_edges, its errors under the name of the file.
Graph make_graph(const Origin& origin, int64_t nodes, EdgeList&& edges, const ReadOptions& options, bool directed,
                 at::ScalarType weight_dtype);

/// The edges of a graph as writers want them: on the CPU, contiguous, each undirected edge once.
class EdgeWalk {
 public:
  EdgeWalk(const Origin& origin,
           const Graph& graph);  ///< weights that are not finite are refused: no reader takes them

  bool unit_weights() const { return unit_weights_; }
  const at::Tensor& weights() const { return weights_; }
  /// visit(row, column, entry): all entries of a directed graph, those with row <= column of an undirected one.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    const auto* offsets = offsets_.const_data_ptr<int64_t>();
    const auto* columns = columns_.const_data_ptr<int32_t>();
    for (int64_t row = 0; row < nodes_; ++row) {
      for (int64_t entry = offsets[row]; entry < offsets[row + 1]; ++entry) {
        if (directed_ || row <= columns[entry]) visit(row, int64_t{columns[entry]}, entry);
      }
    }
  }

 private:
  int64_t nodes_;
  bool directed_;
  at::Tensor offsets_;
  at::Tensor columns_;
  at::Tensor weights_;
  bool unit_weights_;
};

}  // namespace topomask::io
