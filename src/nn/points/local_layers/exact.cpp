#include <ATen/ATen.h>

#include "nn/points/local_layers/masked.h"
#include "topomask/attention.h"
#include "topomask/power_series.h"

namespace topomask {
namespace {

/// Σ_k f_k Wᵏ up to `hops`, exact, on the symmetric graph of nearest neighbours, W_ij = 1/√(d_i d_j).
class ExactLayer final : public MaskedLocalLayer {
 public:
  explicit ExactLayer(const PointModelOptions& options)
      : MaskedLocalLayer(options, decaying(options.decay, options.hops + 1)) {}

  void prepare(LocalStructure& structure) const override {
    add_neighbours(structure, options().neighbours);
    if (!structure.graph) structure.graph.emplace(symmetric_cloud_graph(structure.neighbours).normalised());
    if (!structure.basis) structure.basis = power_series_basis(*structure.graph, options().hops + 1);
  }

 protected:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const LocalStructure& structure) override {
    return attention(q, k, v, power_series_mask(structure.basis, f()),
                     {.features = FeatureMap::identity(), .route = Route::sparse});
  }
};

const LocalLayerRegistration kExact("exact", [](const PointModelOptions& options) {
  return std::make_shared<ExactLayer>(options);
});

}  // namespace
}  // namespace topomask
