#include "fuzz/graph_file.h"

FUZZ_TARGET(matrix_market) {
  topomask::fuzz::read_graph_file(data, size, topomask::read_matrix_market);
}
