#include <ATen/ATen.h>

#include "nn/graph_models/blocks.h"
#include "nn/graph_models/edges.h"
#include "topomask/encodings.h"
#include "topomask/masks.h"
#include "topomask/nn/graph_mask.h"

namespace topomask {
namespace {

constexpr const char* kDistances = "distances";

/// exp(b(distance in hops)) between the nodes of a graph, b learnable for each head: softmax under it is Graphormer's,
/// with b added to the scores. b has a value for each distance up to options.hops and one for longer or no paths.
/// Σ n_g² distances are kept for the data set.
class ShortestPathGraphMask final : public GraphMask {
 public:
  explicit ShortestPathGraphMask(const GraphMaskSetting& setting)
      : GraphMask(setting),
        bias_(learnt(
            "bias",
            at::arange(setting.options.hops + 2, at::kFloat).mul(-setting.options.decay).repeat({setting.heads, 1}))) {}

  at::Tensor modulation() const override { return setting().options.learn_mask ? bias_ : at::Tensor(); }

  void prepare(const GraphSet& set, int64_t, GraphStructure& structure) const override {
    if (structure.matrices.contains(kDistances)) return;
    const PatternPtr pairs = pairs_inside(set.offsets, setting().options.max_entries, "mask shortest_path");
    std::vector<at::Tensor> distances{at::empty({0}, at::kInt)};
    for (int64_t g = 0; g < set.size(); ++g) {
      distances.push_back(shortest_paths(graph_at(set, g), {.max_entries = setting().options.max_entries}).flatten());
    }
    structure.matrices.emplace(kDistances,
                               SparseMatrix{pairs, at::cat(distances).to(set.graph.weights().scalar_type())});
  }

  MaskPtr mask(const GraphSample&, const GraphStructure& structure) const override {
    const SparseMatrix distances =
        matrix_of(structure, kDistances).to(at::device(bias_.device()).dtype(bias_.scalar_type()));
    const int64_t last = setting().options.hops + 1;
    const at::Tensor place =
        at::where(distances.values < 0, static_cast<double>(last), distances.values.clamp_max(last)).to(at::kLong);
    return sparse_mask({distances.pattern, bias_.exp().index_select(1, place)});
  }

 private:
  at::Tensor bias_;  // [H, hops + 2]
};

const GraphMaskRegistration kShortestPathGraphMask("shortest_path", [](const GraphMaskSetting& setting) {
  return std::make_shared<ShortestPathGraphMask>(setting);
});

}  // namespace
}  // namespace topomask
