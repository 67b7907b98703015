#include "topomask/grf.h"

#include <ATen/ATen.h>

#include "nn/points/local_layers/masked.h"
#include "topomask/attention.h"

namespace topomask {
namespace {

/// The asymmetric GRF mask over repelling walks of exactly `hops` hops on the directed graph of nearest neighbours.
///
/// Where the walkers are a multiple of k^hops they take every path equally often, and NeighbourWalks has their table
/// without sampling; otherwise walks are sampled, the same in every step, which waits for a GPU.
class GrfLayer final : public MaskedLocalLayer {
 public:
  explicit GrfLayer(const PointModelOptions& options)
      : MaskedLocalLayer(options, decaying(options.decay, options.hops + 1)),
        all_paths_(NeighbourWalks::takes(options.walkers, options.neighbours, options.hops)) {}

  void prepare(LocalStructure& structure) const override {
    add_neighbours(structure, options().neighbours);
    if (all_paths_) {
      if (!structure.walks) structure.walks.emplace(structure.neighbours, options().hops);
    } else if (!structure.table) {
      const WalkOptions walks{
          .walkers = options().walkers, .fixed_hops = options().hops, .coupling = Coupling::repelling};
      structure.table.emplace(sample_walks(cloud_graph(structure.neighbours).normalised(), walks));
    }
  }

 protected:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const LocalStructure& structure) override {
    if (all_paths_) return neighbour_attention(q, k, v, *structure.walks, f());
    return attention(q, k, v, asymmetric_grf_mask(*structure.table, f()),
                     {.features = FeatureMap::identity(), .route = Route::sparse});
  }

 private:
  bool all_paths_;
};

const LocalLayerRegistration kGrf("grf",
                                  [](const PointModelOptions& options) { return std::make_shared<GrfLayer>(options); });

}  // namespace
}  // namespace topomask
