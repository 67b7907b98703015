#include <ATen/ATen.h>

#include "nn/graph_models/blocks.h"
#include "nn/graph_models/edges.h"
#include "topomask/masks.h"
#include "topomask/nn/graph_mask.h"

namespace topomask {
namespace {

constexpr const char* kPairs = "pairs";

/// 1 inside each graph, 0 between graphs. Softmax needs the pairs themselves.
class NoGraphMask final : public GraphMask {
 public:
  using GraphMask::GraphMask;

  void prepare(const GraphSet& set, int64_t, GraphStructure& structure) const override {
    if (!setting().softmax || structure.matrices.contains(kPairs)) return;
    const PatternPtr pairs = pairs_inside(set.offsets, setting().options.max_entries, "softmax without a mask");
    structure.matrices.emplace(kPairs,
                               SparseMatrix{pairs, at::ones({pairs->entries()}, set.graph.weights().scalar_type())});
  }

  MaskPtr mask(const GraphSample& sample, const GraphStructure& structure) const override {
    if (!setting().softmax) return nullptr;
    return sparse_mask(matrix_of(structure, kPairs).to(working_options(sample)));
  }
};

const GraphMaskRegistration kNoGraphMask("none", [](const GraphMaskSetting& setting) {
  return std::make_shared<NoGraphMask>(setting);
});

}  // namespace
}  // namespace topomask
