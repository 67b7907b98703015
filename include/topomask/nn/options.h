#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topomask/export.h"

namespace TOPOMASK_API topomask {

/// A vision transformer (Dosovitskiy et al. 2021) whose attention is one of variant_names(). The defaults of the mask
/// are those of Reid et al. 2024, Table 2.
struct ViTOptions {
  int64_t image_size = 0;
  int64_t channels = 0;
  int64_t classes = 0;
  int64_t patch_size = 4;
  int64_t width = 192;
  int64_t depth = 6;
  int64_t heads = 3;
  double mlp_ratio = 4;
  double dropout = 0.1;
  bool cls_token = true;
  std::string variant = "grf";
  std::string features = "relu";
  double feature_offset = 1e-3;
  int64_t favor_features = 0;
  int64_t walkers = 100;
  double halting_probability = 0.1;
  int64_t hops = 100;
  std::string sampler = "repelling";
  bool per_layer_walks = true;
  bool per_head_walks = true;
  double edge_scale = 1;
  double decay = 0.01;
  double diffusion_time = 1;
  int64_t rank = 0;

  /// Refuses a field that is out of its range, by its name; image_size, channels and classes may be 0 here, which means
  /// as the data has them. width, heads, patch_size and walkers >= 1, other counts >= 0, hops at most 32767; dropout in
  /// [0, 1), halting_probability in (0, 1), mlp_ratio > 0, feature_offset, decay and diffusion_time >= 0, all of them
  /// finite; names among those known. `origin` starts the text. ViT and configuration files call it.
  void check(const std::string& origin = "ViT: ") const;

  /// Sizes by name: pico (for two cores), tiny, small, base (the paper's ViT-B); the rest as above.
  static ViTOptions preset(const std::string& name);

  int64_t grid() const { return image_size / patch_size; }                  ///< patches along an axis
  int64_t tokens() const { return grid() * grid() + (cls_token ? 1 : 0); }  ///< T
  int64_t head_dim() const { return width / heads; }
};

std::vector<std::string> preset_names();

/// Names and explains every field: files, command lines and help come from here.
template <class Visitor>
void visit(Visitor& v, ViTOptions& o) {
  v("image_size", o.image_size, "side of the images in pixels; 0: as the data has them");
  v("channels", o.channels, "channels of the images; 0: as the data has them");
  v("classes", o.classes, "number of classes; 0: as the data has them");
  v("patch_size", o.patch_size, "side of a patch in pixels; a token is a patch");
  v("width", o.width, "features of a token");
  v("depth", o.depth, "transformer blocks");
  v("heads", o.heads, "attention heads; they divide width");
  v("mlp_ratio", o.mlp_ratio, "hidden features of a block's perceptron, in multiples of width");
  v("dropout", o.dropout, "probability of dropout after the embedding, attention and each layer of the perceptron");
  v("cls_token", o.cls_token, "classify by a token that sees all others; without it, by the mean of the tokens");
  v("variant", o.variant,
    "attention: softmax, linear, grf, exact, toeplitz, ad_hoc, free, softmax_grf, centrality, spe, diffusion");
  v("features", o.features, "feature map of kernel attention: relu, elu (ELU + 1), favor (FAVOR+)");
  v("feature_offset", o.feature_offset, "added to relu features, so that no row of attention is zero");
  v("favor_features", o.favor_features, "random features of favor; 0: as many as a head has dimensions");
  v("walkers", o.walkers, "random walks from each token (grf, ad_hoc, softmax_grf)");
  v("halting_probability", o.halting_probability, "a walk halts before each hop with this probability");
  v("hops", o.hops, "longest walk, highest power of the exact series");
  v("sampler", o.sampler, "walkers: independent, antithetic, repelling, antithetic_repelling");
  v("per_layer_walks", o.per_layer_walks, "every layer has walks of its own; otherwise all share one set");
  v("per_head_walks", o.per_head_walks, "every head has walks of its own; otherwise heads share them");
  v("edge_scale", o.edge_scale, "s of the edge weights s/sqrt(d_i d_j) of the grid");
  v("decay", o.decay, "the coefficients f_k or alpha_k of walks and powers start at exp(-decay k)");
  v("diffusion_time", o.diffusion_time, "where the learnable time of diffusion starts");
  v("rank", o.rank, "free: features of a token, 0: as many as tokens; spe: sine waves, 0: 16");
}

}  // namespace topomask
