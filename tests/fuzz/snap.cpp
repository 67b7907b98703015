#include "fuzz/graph_file.h"

FUZZ_TARGET(snap) {
  topomask::fuzz::read_graph_file(data, size, topomask::read_snap);
}
