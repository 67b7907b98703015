#pragma once

#include <cstdint>
#include <string>

#include "topomask/data/graph_set.h"
#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// Where labelled graphs come from, which features their nodes have, and how they are split. docs/data.md
/// describes the kinds.
struct GraphDataOptions {
  std::string kind = "motif";
  std::string path;
  std::string features = "given";
  std::string scaling = "none";
  int64_t degree_limit = 64;
  int64_t ngram_features = 256;
  double given_labels = 0.5;
  std::string labels = "none";
  int64_t regions = 16;
  std::string splits;
  int64_t fold = 0;
  int64_t inner_split = 0;
  uint64_t split_seed = 0;
  int64_t train_per_class = 20;
  int64_t validation_per_class = 30;
  double validation_fraction = 0.1;
  double test_fraction = 0.1;
  std::string motif = "caveman";
  uint64_t seed = 0;
  int64_t generated_train = 1536;
  int64_t generated_validation = 512;
  int64_t generated_test = 512;
  int64_t fanout = 0;
  int64_t hops = 2;
  std::string edges = "given";
  int64_t neighbours = 8;
  int64_t points = 0;
  int64_t window = 60;
  int64_t stride = 10;
  std::string rotate = "none";
  double jitter = 0;

  /// Refuses a field that is out of its range, by its name. `origin` starts the text. open_graphs and configuration
  /// files call it.
  void check(const std::string& origin = "open_graphs: data.") const;
};

/// Names and explains every field: files, command lines and help come from here.
template <class Visitor>
void visit(Visitor& v, GraphDataOptions& o) {
  v("kind", o.kind,
    "tu, citation, conllu, wordnet, graph (one file of edges), mesh, radhar (clouds of points), or generated: motif, "
    "cycle");
  v("path", o.path, "the file or folder; none for motif and cycle");
  v("features", o.features, "given (what the kind has), degree, one_hot_degree, constant");
  v("scaling", o.scaling,
    "none, rows (each row is divided by its sum of absolute values), or columns (mean 0 and variance 1 on what is "
    "trained on)");
  v("degree_limit", o.degree_limit, "largest degree of one_hot_degree; larger ones share the last column");
  v("ngram_features", o.ngram_features, "conllu: columns that character n-grams of a word are hashed into");
  v("given_labels", o.given_labels,
    "wordnet, and graph with labels: fraction of the nodes whose label is an input feature; no part of the split "
    "contains them");
  v("labels", o.labels, "graph: none, or regions: which of some nodes, drawn by seed, is nearest in hops");
  v("regions", o.regions, "graph: how many nodes regions grow from");
  v("splits", o.splits, "tu: JSON file of folds; none: drawn by split_seed");
  v("fold", o.fold, "fold of the file in splits");
  v("inner_split", o.inner_split, "which training and validation sets of that fold");
  v("split_seed", o.split_seed, "draws splits and the nodes of given_labels");
  v("train_per_class", o.train_per_class, "citation: training nodes of each class");
  v("validation_per_class", o.validation_per_class, "citation: validation nodes of each class; the rest is tested on");
  v("validation_fraction", o.validation_fraction,
    "fraction held out for validation where a split is drawn, not citation");
  v("test_fraction", o.test_fraction, "fraction held out for testing where a split is drawn, not citation");
  v("motif", o.motif, "motif: caveman, cycle, grid, ladder, or circular_ladder");
  v("seed", o.seed,
    "draws the graphs of motif and cycle, the columns of n-grams, the points of clouds, and where regions grow from");
  v("generated_train", o.generated_train, "training graphs that motif and cycle make, half of each label");
  v("generated_validation", o.generated_validation, "validation graphs that motif and cycle make");
  v("generated_test", o.generated_test, "test graphs that motif and cycle make");
  v("fanout", o.fanout,
    "nodes of one graph: a training step sees train.batch_size nodes and what is around them, this many neighbours of "
    "each at every hop; 0: it sees the whole graph");
  v("hops", o.hops, "how far a step sees from its nodes where fanout is not 0");
  v("edges", o.edges, "mesh: given (the mesh's own edges) or nearest (each vertex and its nearest neighbours)");
  v("neighbours", o.neighbours, "mesh with edges = nearest, radhar: neighbours that each point chooses");
  v("points", o.points, "mesh with edges = nearest, radhar: points of a cloud, drawn by seed; 0: all");
  v("window", o.window, "radhar: frames of a recording that make a cloud");
  v("stride", o.stride, "radhar: frames from one window to the next");
  v("rotate", o.rotate, "mesh, radhar: training clouds are turned at random: none, vertical (around z), any");
  v("jitter", o.jitter, "mesh, radhar: standard deviation of noise that is added to the places of training clouds");
}

/// A set and how it is split.
struct LoadedGraphs {
  GraphSet set;
  GraphSplit split;
};

/// Reads or generates a set on the CPU. Deterministic: the same options give the same bytes. Errors name the file, and
/// its line or array.
LoadedGraphs open_graphs(const GraphDataOptions& options);

}  // namespace topomask
