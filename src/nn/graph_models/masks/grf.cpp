#include "topomask/grf.h"

#include <ATen/ATen.h>

#include "nn/graph_models/masks/walks.h"

namespace topomask {
namespace {

using WalkMaskRule = MaskPtr (*)(const WalkTable& walks, const at::Tensor& f);

/// Φ̂Φ̂ᵀ from walks kept for the whole data set, with a learnable function f of the hops for each head.
class GrfGraphMask final : public FunctionGraphMask {
 public:
  GrfGraphMask(const GraphMaskSetting& setting, WalkMaskRule rule) : FunctionGraphMask(setting, "f"), rule_(rule) {}

  void prepare(const GraphSet& set, int64_t epoch, GraphStructure& structure) const override {
    if (structure.walks.contains(key())) return;
    const Graph weighted = set.graph.normalised(setting().options.edge_scale);
    structure.walks.emplace(key(), graph_walks(weighted, setting(), epoch, /*fixed=*/false));
  }

  MaskPtr mask(const GraphSample&, const GraphStructure& structure) const override {
    const auto found = structure.walks.find(key());
    TORCH_CHECK(found != structure.walks.end(),
                "graph model: structure must come from this model's structure(), got one without ", key());
    return rule_(found->second.to(working_type()), f());
  }

 private:
  std::string key() const { return walks_key("grf", setting()); }

  WalkMaskRule rule_;
};

const GraphMaskRegistration kGrfGraphMask("grf", [](const GraphMaskSetting& setting) {
  return std::make_shared<GrfGraphMask>(setting,
                                        [](const WalkTable& walks, const at::Tensor& f) { return grf_mask(walks, f); });
});

/// The same walks without importance weights: every visit counts 1.
const GraphMaskRegistration kAdHocGraphMask("ad_hoc", [](const GraphMaskSetting& setting) {
  return std::make_shared<GrfGraphMask>(setting, ad_hoc_mask);
});

}  // namespace
}  // namespace topomask
