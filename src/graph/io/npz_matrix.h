#pragma once

#include <map>
#include <string>

#include "io/zip_archive.h"
#include "topomask/graph_io.h"

namespace topomask::io {

/// Whether the members are those of a matrix that scipy.sparse.save_npz wrote, and not of an edge list.
bool holds_matrix(const std::map<std::string, ZipMember>& members);

/// That matrix as a graph, see read_npz: entry (i, j) is the edge i → j, as in a general Matrix Market file.
Graph read_npz_matrix(InputFile& file, const std::map<std::string, ZipMember>& members, const ReadOptions& options);

}  // namespace topomask::io
