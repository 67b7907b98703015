#include <ATen/ATen.h>

#include "core/move.h"
#include "masks/grf/debiased.h"
#include "masks/grf/learned_product.h"
#include "masks/grf/product_mask.h"
#include "masks/grf/walk_function.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

/// Φ̂Φ̂ᵀ over one table.
class SymmetricGrfMask final : public ProductMask {
 public:
  SymmetricGrfMask(std::string name, WalkTable walks, at::Tensor f, FeatureRule rule)
      : ProductMask(std::move(name), walks.pattern(), nullptr, walk_parameters({f}, {walks}), function_heads(f)),
        walks_({std::move(walks)}),
        rule_(rule) {}

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<SymmetricGrfMask>(name(), tables_of(walks_, parameters, 1)[0], parameters[0], rule_);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(walks_[0].loads(), target)) return shared_from_this();
    return std::make_shared<SymmetricGrfMask>(name(), walks_[0].to(target), parameters()[0].to(target), rule_);
  }

 protected:
  Parts parts(const std::vector<at::Tensor>& parameters) const override {
    return {feature_values(rule_, tables_of(walks_, parameters, 1)[0], parameters[0], heads())};
  }
  std::vector<at::Tensor> compared() const override { return with_seen_loads(parameters(), walks_); }
  double parts_work() const override { return feature_work(walks_[0]); }
  at::Tensor learned_values(const std::vector<at::Tensor>& parameters, const SparsePattern& product) const override {
    const at::Tensor& f = parameters[0];
    if (rule_ != static_cast<FeatureRule>(walk_features) || !LearnedProduct::supports(walks_[0], f.size(-1))) return {};
    const at::Tensor own = heads() == 1 ? f.reshape({-1}) : f;
    return LearnedProduct::of(walks_[0], f.size(-1))->values(walks_[0], product, own);
  }

 private:
  std::vector<WalkTable> walks_;  // one
  FeatureRule rule_;
};

}  // namespace

MaskPtr grf_mask(const WalkTable& walks, const at::Tensor& f, const GrfOptions& options) {
  check_function("grf_mask", "f", f, walks);
  if (options.diagonal == Diagonal::debiased) return debiased_grf_mask("grf, debiased", walks, f);
  return std::make_shared<SymmetricGrfMask>("grf", walks, f, walk_features);
}

MaskPtr ad_hoc_mask(const WalkTable& walks, const at::Tensor& f) {
  check_constant_loads("ad_hoc_mask", walks);
  check_function("ad_hoc_mask", "f", f, walks);
  return std::make_shared<SymmetricGrfMask>("ad hoc walks", walks, f, adhoc_features);
}

}  // namespace topomask
