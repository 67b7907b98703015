#include "core/option_checks.h"
#include "data/graphs/names.h"
#include "topomask/data/graph_options.h"

namespace topomask {

void GraphDataOptions::check(const std::string& origin) const {
  const OptionChecks check(origin);
  check.one_of("kind", kind, kGraphKindNames.all());
  check.one_of("features", features, kNodeFeatureNames.all());
  check.one_of("scaling", scaling, kFeatureScalingNames.all());
  check.one_of("motif", motif, kMotifNames.all());
  check.one_of("edges", edges, kCloudEdgeNames.all());
  check.one_of("rotate", rotate, kRotationNames.all());
  check.that(rotate == "none" || kind == "mesh" || kind == "radhar", "rotate",
             "none where kind is not mesh or radhar, ", "got ", rotate);
  check.that(rotate == "none" || scaling == "none", "rotate", "none where scaling is ", scaling,
             ", since what is scaled cannot be rotated, got ", rotate);
  check.within("neighbours", neighbours, 1, 1024);
  check.within("points", points, 0, 1 << 24);
  check.that(points == 0 || kind != "mesh" || edges == "nearest", "points",
             "0 where a mesh keeps its own edges (edges = given), got ", points);
  check.not_negative("jitter", jitter, check.kLargestParameter);
  check.that(jitter == 0 || kind == "mesh" || kind == "radhar", "jitter", "0 where kind is not mesh or radhar, got ",
             jitter);
  check.that(rotate == "none" || features == "given", "rotate",
             "none where features is not given, since others have no places, got ", rotate);
  check.that(jitter == 0 || features == "given", "jitter",
             "0 where features is not given, since others have no places, got ", jitter);
  check.within("window", window, 1, 1 << 20);
  check.within("stride", stride, 1, 1 << 20);
  check.within("degree_limit", degree_limit, 1, 65536);
  check.within("ngram_features", ngram_features, 1, 65536);
  check.fraction("given_labels", given_labels);
  check.one_of("labels", labels, {"none", "regions"});
  check.that(labels == "none" || kind == "graph", "labels", "none where kind is not graph, got ", labels);
  check.within("regions", regions, 1, 65536);
  check.that(splits.empty() || kind == "tu", "splits", "empty where kind is not tu, got ", splits);
  check.within("fold", fold, 0, 1 << 20);
  check.within("inner_split", inner_split, 0, 1 << 20);
  check.that(fold == 0 || !splits.empty(), "fold", "0 where splits names no file, got ", fold);
  check.that(inner_split == 0 || !splits.empty(), "inner_split", "0 where splits names no file, got ", inner_split);
  constexpr int64_t kMostPerClass = (int64_t{1} << 31) - 1;
  check.within("train_per_class", train_per_class, 1, kMostPerClass);
  check.within("validation_per_class", validation_per_class, 0, kMostPerClass);
  check.fraction("validation_fraction", validation_fraction);
  check.fraction("test_fraction", test_fraction);
  const double held_out =
      validation_fraction + test_fraction + (kind == "wordnet" || labels != "none" ? given_labels : 0);
  check.that(held_out < 1, "test_fraction", "such that something is left to train on, got ", held_out,
             " of everything that is not");
  constexpr int64_t kMostGenerated = int64_t{1} << 22;  // 2²² graphs of about 100 nodes fit 32-bit node numbers
  check.within("generated_train", generated_train, 0, kMostGenerated);
  check.within("generated_validation", generated_validation, 0, kMostGenerated);
  check.within("generated_test", generated_test, 0, kMostGenerated);
  check.within("fanout", fanout, 0, 1 << 20);
  check.within("hops", hops, 1, 64);
}

}  // namespace topomask
