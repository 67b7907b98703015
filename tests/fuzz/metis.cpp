#include "fuzz/graph_file.h"

FUZZ_TARGET(metis) {
  topomask::fuzz::read_graph_file(data, size, topomask::read_metis);
}
