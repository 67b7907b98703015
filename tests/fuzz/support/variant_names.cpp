#include <algorithm>
#include <array>

#include "topomask/nn/graph_mask.h"
#include "topomask/nn/graph_model.h"
#include "topomask/nn/local_layer.h"
#include "topomask/nn/variants.h"

namespace topomask {

// A configuration is checked against the names of the variants of attention, of graph models and their masks, and of
// the local layers of point models. In the library they are what registers itself, which brings every mask and kernel
// with it; the fuzzers get along with the names.
std::vector<std::string> variant_names() {
  return {"ad_hoc", "centrality", "diffusion",   "exact", "free",    "grf",
          "linear", "softmax",    "softmax_grf", "spe",   "toeplitz"};
}

std::vector<std::string> graph_model_names() {
  return {"cheb", "gat", "gcn", "gin", "gkat", "sage", "sgc", "transformer", "transformer_conv"};
}

std::vector<std::string> graph_mask_names() {
  return {"ad_hoc", "diffusion", "forest",        "frequency",       "gkat",    "grf", "neighbours",
          "none",   "series",    "shortest_path", "spanning_forest", "sequence"};
}

bool has_mask_function(const GraphModelOptions& options) {
  constexpr std::array kWithFunction{"ad_hoc", "forest", "grf", "series", "spanning_forest", "sequence"};
  return std::find(kWithFunction.begin(), kWithFunction.end(), options.mask) != kWithFunction.end();
}

std::vector<std::string> local_layer_names() {
  return {"diffusion", "exact", "grf", "message_passing", "neighbours", "none", "unmasked"};
}

}  // namespace topomask
