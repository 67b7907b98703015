#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "topomask/export.h"
#include "topomask/graph.h"

namespace TOPOMASK_API topomask {

/// Limits that are checked before memory is allocated: a header that announces more is an error.
struct ReadLimits {
  int64_t max_nodes = int64_t{1} << 31;     ///< exclusive
  int64_t max_edges = int64_t{1} << 33;     ///< edges as the file lists them, duplicates included
  int64_t max_isolated = int64_t{1} << 24;  ///< N − 2E at most, where nodes cost no bytes (SNAP, Matrix Market, npz)
};

struct ReadOptions {
  /// SNAP and npz with `src` only: METIS is undirected, Matrix Market says it in its header, matrices are directed.
  bool directed = false;
  Duplicates duplicates = Duplicates::first;
  SelfLoops self_loops = SelfLoops::keep;
  ReadLimits limits = {};
  at::ScalarType weight_dtype = at::kFloat;  ///< text formats, float32 or float64; npz keeps the dtype of its array
  /// SNAP and npz with `src` only, the other formats define it: id 1 is node 0; id 0 is refused.
  bool one_based = false;
  /// Called with a warning about a file that can be read but probably means something else: ids that begin at 1 without
  /// `one_based`. Where empty, the warning is printed as a line on stderr.
  std::function<void(const std::string& message)> warn = {};
};

// The text formats are read plain or gzip, which is recognised by content, and written gzip where the path ends in .gz.
// Line ends may be \n or \r\n; empty lines, blanks at the end of a line and a missing last line break are fine. Memory
// grows with the edges read, never with the sizes in a header or the length of a line. Errors name the file, and the
// line or array where there is one. Writers give each undirected edge once, weights only where one is not 1, with the
// digits that read back as the same number; the file appears under its name when it is whole, or not at all. Weights
// that are not finite are refused.

/// SNAP edge list: one `source target [weight]` per line, blanks between, `#` or `%` starts a comment line. Either
/// every edge has a weight or none. Node ids are 0-based unless options.one_based; N = largest id + 1, or the `Nodes:
/// N` of a header comment if that is larger. A file whose ids run from 1 to N, or from 1 on without such a comment, is
/// read as it stands, with node 0 isolated, and options.warn is called. A file without edges is a graph of that many
/// isolated nodes; one without even a comment is an error, as a failed copy is.
Graph read_snap(const std::string& path, const ReadOptions& options = {});
void write_snap(const Graph& graph, const std::string& path);  ///< with a `Nodes: N` comment; directedness is not kept

/// METIS graph file: header `N E [fmt [ncon]]`, then the 1-based neighbours of each node on a line of its own; edge
/// weights (positive integers) read, node weights and sizes skipped; `%` starts a comment line. Each edge must stand at
/// both ends with one weight; self-loops are refused. An edge listed twice at both ends is a duplicate.
Graph read_metis(const std::string& path, const ReadOptions& options = {});
void write_metis(const Graph& graph,
                 const std::string& path);  ///< undirected, loop-free, weights positive integers or all 1

/// Matrix Market coordinate file, `real`, `integer` or `pattern`, `general` (directed) or `symmetric` (undirected, each
/// edge in one triangle), square. Entry (i, j) is the edge i → j. In a symmetric file two different values for one pair
/// are refused, unless Duplicates::sum adds up entries of the same triangle. `complex` fields and the symmetries
/// `skew-symmetric` and `hermitian` are refused: a graph has one real weight for both directions of an edge.
Graph read_matrix_market(const std::string& path, const ReadOptions& options = {});
void write_matrix_market(const Graph& graph, const std::string& path);

/// NumPy archive with integer arrays `src`, `dst` [E], optional float16, float32 or float64 `weight` [E], optional
/// integer scalar `num_nodes` (otherwise N = largest id + 1). Ids as in read_snap. Stored or deflated members,
/// little-endian; other arrays are ignored.
///
/// Or a square matrix of scipy.sparse.save_npz: `format` (csr, csc or coo), `shape`, `data` (floats, whose dtype is
/// kept; integers or bool become options.weight_dtype), and `indptr`, `indices` or `row`, `col`. As in a general Matrix
/// Market file, entry (i, j) is the edge i → j, numbered from 0, and the graph is directed.
Graph read_npz(const std::string& path, const ReadOptions& options = {});
void write_npz(const Graph& graph, const std::string& path);  ///< stored, int32 ids; `weight` unless float32 and all 1

/// By extension, in either case: .txt .edges .el (SNAP), .graph .metis (METIS), .mtx (Matrix Market), each with or
/// without .gz; .npz.
Graph read_graph(const std::string& path, const ReadOptions& options = {});

}  // namespace topomask
