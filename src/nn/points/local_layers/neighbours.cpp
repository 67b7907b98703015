#include <ATen/ATen.h>

#include "nn/points/local_layers/masked.h"

namespace topomask {
namespace {

/// f₀ I + f₁ W on the directed graph of nearest neighbours: graph attention, with a learned weight for the node itself.
class NeighboursLayer final : public MaskedLocalLayer {
 public:
  explicit NeighboursLayer(const PointModelOptions& options) : MaskedLocalLayer(options, decaying(options.decay, 2)) {}

  void prepare(LocalStructure& structure) const override {
    add_neighbours(structure, options().neighbours);
    if (!structure.walks) structure.walks.emplace(structure.neighbours, 1);
  }

 protected:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const LocalStructure& structure) override {
    return neighbour_attention(q, k, v, *structure.walks, f());
  }
};

const LocalLayerRegistration kNeighbours("neighbours", [](const PointModelOptions& options) {
  return std::make_shared<NeighboursLayer>(options);
});

}  // namespace
}  // namespace topomask
