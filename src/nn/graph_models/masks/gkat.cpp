#include <ATen/ATen.h>

#include "nn/graph_models/edges.h"
#include "nn/graph_models/masks/walks.h"
#include "topomask/masks.h"
#include "topomask/node_kernel.h"

namespace topomask {
namespace {

using KernelRule = MaskPtr (*)(const WalkTable& walks);

/// A kernel of the nodes that walks of options.hops hops visit, constant: its entries are kept for the whole data set
/// while there are at most max_entries; beyond, the walks are, which kernel attention goes through as factors.
class NodeKernelGraphMask final : public GraphMask {
 public:
  NodeKernelGraphMask(const GraphMaskSetting& setting, const char* name, KernelRule rule)
      : GraphMask(setting), name_(name), rule_(rule) {}

  void prepare(const GraphSet& set, int64_t epoch, GraphStructure& structure) const override {
    const std::string key = walks_key(name_, setting());
    if (structure.matrices.contains(key) || structure.walks.contains(key)) return;
    const WalkTable walks = graph_walks(set.graph, setting(), epoch, /*fixed=*/true);
    const MaskPtr kernel = rule_(walks);
    const double entries = kernel->counts().sparse_entries.value_or(0);
    if (entries <= static_cast<double>(setting().options.max_entries)) {
      structure.matrices.emplace(key, *kernel->sparse());
      return;
    }
    TORCH_CHECK(!setting().softmax, "graph model: mask ", name_,
                " must have at most max_entries = ", setting().options.max_entries,
                " entries under softmax, got about ", entries, "; fewer walkers or hops give fewer");
    structure.walks.emplace(key, walks);
  }

  MaskPtr mask(const GraphSample& sample, const GraphStructure& structure) const override {
    const std::string key = walks_key(name_, setting());
    const auto walks = structure.walks.find(key);
    if (walks != structure.walks.end()) return rule_(walks->second.to(working_options(sample)));
    return sparse_mask(matrix_of(structure, key).to(working_options(sample)));
  }

 private:
  const char* name_;
  KernelRule rule_;
};

const GraphMaskRegistration kGkatGraphMask("gkat", [](const GraphMaskSetting& setting) {
  return std::make_shared<NodeKernelGraphMask>(setting, "gkat",
                                               [](const WalkTable& walks) { return node_kernel_mask(walks); });
});

const GraphMaskRegistration kFrequencyGraphMask("frequency", [](const GraphMaskSetting& setting) {
  return std::make_shared<NodeKernelGraphMask>(setting, "frequency",
                                               [](const WalkTable& walks) { return node_frequency_mask(walks); });
});

}  // namespace
}  // namespace topomask
