#include <ATen/ATen.h>

#include "nn/graph_models/edges.h"
#include "topomask/masks.h"
#include "topomask/nn/graph_mask.h"

namespace topomask {
namespace {

/// A + I.
class NeighboursGraphMask final : public GraphMask {
 public:
  using GraphMask::GraphMask;

  void prepare(const GraphSet& set, int64_t, GraphStructure& structure) const override {
    prepare_edges(set, structure);
  }

  MaskPtr mask(const GraphSample& sample, const GraphStructure& structure) const override {
    const SparseMatrix looped = edges_of(sample, structure).normalised_with_loops();
    return sparse_mask({looped.pattern, at::ones_like(looped.values)});
  }
};

const GraphMaskRegistration kNeighboursGraphMask("neighbours", [](const GraphMaskSetting& setting) {
  return std::make_shared<NeighboursGraphMask>(setting);
});

}  // namespace
}  // namespace topomask
