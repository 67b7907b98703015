#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "nn/graph_models/edges.h"
#include "topomask/masks.h"
#include "topomask/nn/graph_mask.h"
#include "topomask/power_series.h"

namespace topomask {
namespace {

constexpr const char* kPowers = "powers";

/// Σ_k α_k W^k with learnable α for each head. The powers on the K-hop neighbourhood are kept for the whole data set,
/// [K, entries] where that is at most max_entries numbers; beyond, products with W take their place.
class SeriesGraphMask final : public FunctionGraphMask {
 public:
  explicit SeriesGraphMask(const GraphMaskSetting& setting) : FunctionGraphMask(setting, "alpha") {}

  void prepare(const GraphSet& set, int64_t, GraphStructure& structure) const override {
    if (structure.matrices.contains(kPowers)) return;
    // With α = I "head" k of the series is W^k.
    const Graph weighted = set.graph.normalised(setting().options.edge_scale);
    const at::Tensor identity = at::eye(terms(), weighted.weights().options());
    const PowerSeriesOptions limit{.max_sparse_entries = setting().options.max_entries / terms()};
    const MaskPtr each = power_series_mask(weighted, identity, limit);
    const auto entries = each->counts().sparse_entries;
    if (entries && *entries <= static_cast<double>(limit.max_sparse_entries)) {
      const SparseMatrix powers = *each->sparse();
      structure.matrices.emplace(kPowers, SparseMatrix{powers.pattern, powers.values_by_head()});
    }
  }

  MaskPtr mask(const GraphSample& sample, const GraphStructure& structure) const override {
    const at::TensorOptions options = working_type();
    if (const auto found = structure.matrices.find(kPowers); found != structure.matrices.end()) {
      const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);  // a mask stays in float32
      const SparseMatrix powers = found->second.to(options);
      return sparse_mask({powers.pattern, at::matmul(f(), powers.values)});
    }
    const PowerSeriesOptions limit{.max_sparse_entries = setting().options.max_entries / terms()};
    return power_series_mask(sample.graph.normalised(setting().options.edge_scale).to(options), f(), limit);
  }
};

const GraphMaskRegistration kSeriesGraphMask("series", [](const GraphMaskSetting& setting) {
  return std::make_shared<SeriesGraphMask>(setting);
});

}  // namespace
}  // namespace topomask
