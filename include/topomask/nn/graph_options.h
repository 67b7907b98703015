#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// A model over graphs, of one of graph_model_names(). The defaults are GKAT as published for motif detection
/// (Choromanski et al. 2022): 2 layers of 2 heads of width 9, 50 walks of 4 nodes, mean pool, a linear head.
struct GraphModelOptions {
  std::string kind = "gkat";
  int64_t features = 0;
  int64_t classes = 0;
  bool node_level = false;
  int64_t layers = 2;
  int64_t width = 9;
  int64_t heads = 2;
  std::vector<double> widths;
  std::vector<double> layer_heads;
  double dropout = 0;
  double attention_dropout = 0;
  bool residual = false;
  std::string norm = "none";
  std::string pool = "mean";
  std::string readout = "linear";
  int64_t order = 2;
  double mlp_ratio = 2;
  std::string attention = "relu";
  double feature_offset = 1e-3;
  int64_t favor_features = 0;
  std::string mask = "gkat";
  bool learn_mask = true;
  bool positive_mask = false;
  int64_t walkers = 50;
  int64_t hops = 3;
  double halting_probability = 0.5;
  std::string sampler = "independent";
  bool per_layer_walks = false;
  std::string resample = "never";
  double edge_scale = 1;
  double decay = 0.5;
  double diffusion_time = 1;
  int64_t max_entries = int64_t{1} << 26;
  int64_t max_degree = 0;
  int64_t laplacian_positions = 0;
  bool flip_signs = true;
  int64_t random_walk_positions = 0;
  int64_t wire = 0;
  bool learn_wire = true;
  double wire_scale = 1;

  /// Refuses a field that is out of its range, by its name; features and classes may be 0 here, which means as the data
  /// has them. `origin` starts the text. make_graph_model and configuration files call it.
  void check(const std::string& origin = "graph model: ") const;

  int64_t width_of(int64_t layer) const;  ///< widths[layer], or width
  int64_t heads_of(int64_t layer) const;  ///< layer_heads[layer], or heads
};

/// Names and explains every field: files, command lines and help come from here.
template <class Visitor>
void visit(Visitor& v, GraphModelOptions& o) {
  v("kind", o.kind, "gkat, transformer, gat, gcn, sgc, cheb, gin, sage, transformer_conv");
  v("features", o.features, "features of a node; 0: as the data has them");
  v("classes", o.classes, "number of classes; 0: as the data has them");
  v("node_level", o.node_level, "logits for every node instead of every graph; set by the task");
  v("layers", o.layers, "layers, transformer blocks; sgc: hops of its one layer");
  v("width", o.width, "features of a layer; of each head in gkat, gat and transformer_conv");
  v("heads", o.heads, "attention heads; in the transformer they divide width");
  v("widths", o.widths, "width of each layer, in place of width; empty: all alike");
  v("layer_heads", o.layer_heads, "heads of each layer, in place of heads; empty: all alike");
  v("dropout", o.dropout, "probability of dropout before each layer; transformer: after each layer");
  v("attention_dropout", o.attention_dropout,
    "gat: probability of dropout of attention weights; gkat, transformer: of entries of the mask, before rows are "
    "normalised");
  v("residual", o.residual, "add a layer's input to its output where their widths agree; the transformer always does");
  v("norm", o.norm, "after each layer but the transformer's: none, batch or layer");
  v("pool", o.pool, "from nodes to graphs: mean, sum, max or attention");
  v("readout", o.readout, "linear: a linear layer gives the logits; layer: the last layer does, its heads averaged");
  v("order", o.order, "cheb: terms of the Chebyshev polynomial");
  v("mlp_ratio", o.mlp_ratio, "hidden features of the perceptron of a transformer block or of gin, in widths");
  v("attention", o.attention, "transformer: softmax, or the feature map of kernel attention: relu, elu, favor");
  v("feature_offset", o.feature_offset, "added to relu features, so that no row of attention is zero");
  v("favor_features", o.favor_features, "random features of favor; 0: as many as a head has dimensions");
  v("mask", o.mask,
    "of gkat and transformer: none, grf, ad_hoc, series, diffusion, gkat, frequency, neighbours, shortest_path, "
    "forest, spanning_forest, sequence");
  v("learn_mask", o.learn_mask, "learn the mask's function, one for each layer and head");
  v("positive_mask", o.positive_mask,
    "learn the logarithm of the function of hops or distances, so that the function stays positive (grf, ad_hoc, "
    "series, forest, spanning_forest, sequence)");
  v("walkers", o.walkers, "random walks from each node (grf, ad_hoc, gkat, frequency)");
  v("hops", o.hops, "longest walk, highest power of the series, largest distance that has a value of its own");
  v("halting_probability", o.halting_probability,
    "a walk of grf or ad_hoc halts before each hop with this probability");
  v("sampler", o.sampler, "walkers: independent, antithetic, repelling, antithetic_repelling");
  v("per_layer_walks", o.per_layer_walks, "every layer has walks of its own; otherwise all share one set");
  v("resample", o.resample, "draw walks again: never, or every epoch");
  v("edge_scale", o.edge_scale, "s of the edge weights s/sqrt(d_i d_j) of grf and series");
  v("decay", o.decay, "functions of hops and distances start at exp(-decay k)");
  v("diffusion_time", o.diffusion_time, "where the time of diffusion starts");
  v("max_entries", o.max_entries, "a mask is kept as a sparse matrix while it has at most this many entries");
  v("max_degree", o.max_degree, "transformer: embed degrees up to this one, higher ones alike; 0: none");
  v("laplacian_positions", o.laplacian_positions, "transformer: Laplacian eigenvectors added to the input; 0: none");
  v("flip_signs", o.flip_signs, "flip the signs of eigenvectors at random while training");
  v("random_walk_positions", o.random_walk_positions,
    "transformer: return probabilities of 1, 2, ... steps added to the input; 0: none");
  v("wire", o.wire, "transformer: rotate queries and keys by this many Laplacian eigenvectors; 0: none");
  v("learn_wire", o.learn_wire, "learn the frequencies of wire; otherwise they stay as drawn");
  v("wire_scale", o.wire_scale, "standard deviation of the first frequencies of wire");
}

}  // namespace topomask
