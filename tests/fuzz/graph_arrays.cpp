#include "data/graphs/readers.h"
#include "fuzz/graph_set.h"

FUZZ_TARGET(graph_arrays) {
  using namespace topomask;
  static fuzz::MemoryFile file("graph_arrays");
  const std::string& path = file.put(fuzz::text_of(data, size));
  const GraphDataOptions options{.path = path, .train_per_class = 1, .validation_per_class = 0};
  fuzz::run(path, [&] { fuzz::check_set(open_citation(options).set); });
  fuzz::run(path, [&] { fuzz::check_set(open_wordnet(options).set); });
  GraphDataOptions clouds = options;
  clouds.window = 3;
  clouds.stride = 2;
  clouds.neighbours = 2;
  fuzz::run(path, [&] { fuzz::check_set(open_radar_clouds(clouds).set); });
}
