#include "data/graphs/readers.h"
#include "fuzz/graph_set.h"

FUZZ_TARGET(conllu) {
  using namespace topomask;
  fuzz::run("fuzz: sentences", [&] {
    ConlluReader sentences;
    sentences.add(*fuzz::lines_in("sentences", std::string(fuzz::text_of(data, size))));
    fuzz::check_set(sentences.finish({"fuzz", "sentences"}, {.ngram_features = 16}));
  });
}
