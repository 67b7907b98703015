#include <ATen/ATen.h>

#include "nn/points/local_layers/masked.h"
#include "topomask/attention.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

/// The layer of the masks, without a mask: a transformer of the same depth and nearly as many parameters.
class UnmaskedLayer final : public MaskedLocalLayer {
 public:
  explicit UnmaskedLayer(const PointModelOptions& options) : MaskedLocalLayer(options, at::empty({0})) {}
  void prepare(LocalStructure&) const override {}

 protected:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const LocalStructure& structure) override {
    const int64_t clouds = structure.positions.size(0), tokens = structure.positions.size(1);
    const auto by_cloud = [&](const at::Tensor& x) { return x.reshape({clouds, 1, tokens, x.size(1)}); };
    return attention(by_cloud(q), by_cloud(k), by_cloud(v), none_mask(tokens),
                     {.features = FeatureMap::identity(), .route = Route::features})
        .reshape(v.sizes());
  }
};

const LocalLayerRegistration kUnmasked("unmasked", [](const PointModelOptions& options) {
  return std::make_shared<UnmaskedLayer>(options);
});

}  // namespace
}  // namespace topomask
