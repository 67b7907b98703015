#include "fuzz/graph_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  topomask::fuzz::read_graph_file(data, size, topomask::read_matrix_market);
  return 0;
}
