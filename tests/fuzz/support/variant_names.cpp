#include "topomask/nn/variants.h"

namespace topomask {

// A configuration is checked against the names of the variants of attention. In the library they are what registers
// itself, which brings every mask and kernel with it; the fuzzers get along with the names.
std::vector<std::string> variant_names() {
  return {"ad_hoc", "centrality", "diffusion",   "exact", "free",    "grf",
          "linear", "softmax",    "softmax_grf", "spe",   "toeplitz"};
}

}  // namespace topomask
