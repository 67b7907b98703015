#include "topomask/forest.h"

#include <ATen/ATen.h>

#include "nn/graph_models/blocks.h"
#include "nn/graph_models/edges.h"
#include "topomask/masks.h"
#include "topomask/nn/graph_mask.h"

namespace topomask {
namespace {

/// f(distance in a forest), f a learnable table of options.hops + 1 values for each head and 0 beyond.
class TreeGraphMask : public FunctionGraphMask {
 public:
  explicit TreeGraphMask(const GraphMaskSetting& setting) : FunctionGraphMask(setting, "f") {}

  MaskPtr mask(const GraphSample& sample, const GraphStructure& structure) const override {
    const Forest forest(parents(sample, structure).to(at::kCPU));
    const at::Tensor table = f();
    if (table.is_cpu()) return tree_mask(forest, DistanceFunction::table(table));
    // Trees are taken apart on the CPU; the mask moves to the GPU and takes its table there.
    return tree_mask(forest, DistanceFunction::table(table.detach().cpu()))->to(table.device())->rebuild({table});
  }

 protected:
  virtual at::Tensor parents(const GraphSample& sample, const GraphStructure& structure) const = 0;  ///< −1 at roots
};

/// The forest is kept as parent − node, 0 at roots, which needs no renumbering in a batch.
class ForestGraphMask final : public TreeGraphMask {
 public:
  ForestGraphMask(const GraphMaskSetting& setting, bool spanning) : TreeGraphMask(setting), spanning_(spanning) {}

  void prepare(const GraphSet& set, int64_t, GraphStructure& structure) const override {
    if (structure.node.contains(key())) return;
    const at::Tensor parent = parents_in(set).to(at::kLong);
    structure.node[key()] = at::where(parent < 0, 0, parent - at::arange(parent.size(0)));
  }

 protected:
  at::Tensor parents(const GraphSample&, const GraphStructure& structure) const override {
    const at::Tensor step = rows_of(structure, key());
    return at::where(step == 0, -1, step + at::arange(step.size(0), step.options()));
  }

 private:
  const char* key() const { return spanning_ ? "spanning_forest" : "forest"; }

  at::Tensor parents_in(const GraphSet& set) const {
    if (!spanning_ && set.parents.defined()) return set.parents;
    const Graph plain = set.graph.with_weights(at::ones_like(set.graph.weights()));
    return spanning_ ? minimum_spanning_forest(plain).parent() : Forest::from_graph(plain).parent();
  }

  bool spanning_;
};

/// The nodes of each graph in their order as a path. Since f is 0 beyond options.hops, the mask is a band, whose
/// distances are kept for the data set while there are at most max_entries of them.
class SequenceGraphMask final : public TreeGraphMask {
 public:
  using TreeGraphMask::TreeGraphMask;

  void prepare(const GraphSet& set, int64_t, GraphStructure& structure) const override {
    const int64_t hops = setting().options.hops, nodes = set.num_nodes();
    if (structure.matrices.contains(kBand) || nodes > setting().options.max_entries / (2 * hops + 1)) return;
    const at::Tensor sizes = set.offsets.diff(), place = at::arange(nodes);
    const auto of_rows = [&](const at::Tensor& graphs) { return at::repeat_interleave(graphs, sizes); };
    const at::Tensor first = at::maximum(of_rows(set.offsets.slice(0, 0, -1)), place - hops);
    const at::Tensor last = at::minimum(of_rows(set.offsets.slice(0, 1)), place + (hops + 1));
    const at::Tensor columns = range_places(first, last), rows = at::repeat_interleave(place, last - first);
    structure.matrices.emplace(kBand, SparseMatrix{std::make_shared<SparsePattern>(
                                                       nodes, nodes, offsets_of(last - first), columns.to(at::kInt)),
                                                   (rows - columns).abs().to(set.graph.weights().scalar_type())});
  }

  MaskPtr mask(const GraphSample& sample, const GraphStructure& structure) const override {
    const auto band = structure.matrices.find(kBand);
    if (band == structure.matrices.end()) return TreeGraphMask::mask(sample, structure);
    const at::Tensor distances = band->second.values.to(at::kLong);
    return sparse_mask({band->second.pattern, f().index_select(1, distances)});
  }

 protected:
  at::Tensor parents(const GraphSample& sample, const GraphStructure&) const override {
    const at::Tensor& member = sample.membership;
    const at::Tensor before = at::arange(member.size(0), member.options()) - 1;
    return at::where(member == member.roll(1), before, -1);  // node 0 has −1 either way
  }

 private:
  static constexpr const char* kBand = "sequence";
};

const GraphMaskRegistration kForestGraphMask("forest", [](const GraphMaskSetting& setting) {
  return std::make_shared<ForestGraphMask>(setting, /*spanning=*/false);
});

const GraphMaskRegistration kSpanningForestGraphMask("spanning_forest", [](const GraphMaskSetting& setting) {
  return std::make_shared<ForestGraphMask>(setting, /*spanning=*/true);
});

const GraphMaskRegistration kSequenceGraphMask("sequence", [](const GraphMaskSetting& setting) {
  return std::make_shared<SequenceGraphMask>(setting);
});

}  // namespace
}  // namespace topomask
