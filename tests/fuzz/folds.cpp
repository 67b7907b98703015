#include "data/graphs/splits.h"
#include "fuzz/harness.h"

FUZZ_TARGET(folds) {
  using namespace topomask;
  static fuzz::MemoryFile file("folds");
  const std::string& path = file.put(fuzz::text_of(data, size));
  constexpr int64_t kGraphs = 4;
  for (const int64_t fold : {0, 1}) {
    fuzz::run(path, [&] {
      const GraphSplit split = read_folds(path, kGraphs, fold, 0);
      fuzz::require(split.train.size() + split.validation.size() + split.test.size() == kGraphs, "not a partition");
    });
  }
}
