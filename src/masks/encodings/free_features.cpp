#include <ATen/ATen.h>

#include "core/move.h"
#include "masks/encodings/factor_mask.h"
#include "masks/encodings/parameter.h"
#include "topomask/encodings.h"

namespace topomask {
namespace {

constexpr const char* kFreeFeaturesOp = "free_features_mask";

class FreeFeaturesMask final : public FactorMask {
 public:
  explicit FreeFeaturesMask(const std::vector<at::Tensor>& features)
      : FactorMask("free features", features[0].size(-2), features[0].size(-1),
                   features[0].dim() == 3 ? features[0].size(0) : 1, features) {}

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<FreeFeaturesMask>(parameters);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(parameters()[0], target)) return shared_from_this();
    std::vector<at::Tensor> features = parameters();
    for (at::Tensor& side : features) side = side.to(target);
    return std::make_shared<FreeFeaturesMask>(features);
  }

 protected:
  Sides sides(const std::vector<at::Tensor>& parameters) const override {
    return {parameters[0], parameters.size() > 1 ? parameters[1] : at::Tensor()};
  }
  double sides_work() const override { return 0; }
};

}  // namespace

MaskPtr free_features_mask(const at::Tensor& left, const at::Tensor& right) {
  TORCH_CHECK(left.defined() && (left.dim() == 2 || left.dim() == 3) && is_real(left.scalar_type()) &&
                  (left.dim() == 2 || left.size(0) >= 1),
              kFreeFeaturesOp, ": left must be Float or Double, [N, r] or [H, N, r], got ", describe(left));
  check_finite(kFreeFeaturesOp, "left", left);
  std::vector<at::Tensor> features{left};
  if (right.defined() && !right.is_same(left)) {
    TORCH_CHECK(
        right.sizes() == left.sizes() && right.scalar_type() == left.scalar_type() && right.device() == left.device(),
        kFreeFeaturesOp, ": right must be like left, ", describe(left), ", got ", describe(right));
    check_finite(kFreeFeaturesOp, "right", right);
    features.push_back(right);
  }
  return std::make_shared<FreeFeaturesMask>(features);
}

}  // namespace topomask
