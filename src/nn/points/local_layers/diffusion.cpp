#include "topomask/diffusion.h"

#include <ATen/ATen.h>

#include <cmath>

#include "nn/points/local_layers/masked.h"
#include "topomask/attention.h"

namespace topomask {
namespace {

/// exp(−λT), T the normalised Laplacian of the symmetric graph of nearest neighbours, λ = exp(f) is learned.
class DiffusionLayer final : public MaskedLocalLayer {
 public:
  explicit DiffusionLayer(const PointModelOptions& options)
      : MaskedLocalLayer(options, at::full({1}, std::log(options.diffusion_time), at::kFloat)) {}

  void prepare(LocalStructure& structure) const override {
    add_neighbours(structure, options().neighbours);
    if (!structure.graph) structure.graph.emplace(symmetric_cloud_graph(structure.neighbours));
  }

 protected:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const LocalStructure& structure) override {
    const MaskPtr mask = diffusion_mask(*structure.graph, f().exp().squeeze(0),
                                        {.generator = Generator::normalised_laplacian, .tolerance = 1e-4});
    return attention(q, k, v, mask, {.features = FeatureMap::identity(), .route = Route::operator_});
  }
};

const LocalLayerRegistration kDiffusion("diffusion", [](const PointModelOptions& options) {
  return std::make_shared<DiffusionLayer>(options);
});

}  // namespace
}  // namespace topomask
