#include <ATen/ATen.h>

#include "core/move.h"
#include "core/pull_back.h"
#include "core/tensor_cache.h"
#include "masks/grf/walk_function.h"
#include "sparse/sddmm.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

/// Φ̂ itself.
class AsymmetricGrfMask final : public Mask {
 public:
  AsymmetricGrfMask(WalkTable walks, at::Tensor f)
      : walks_(std::move(walks)), f_(std::move(f)), parameters_(walk_parameters({f_}, {walks_})) {}

  std::string name() const override { return "grf, asymmetric"; }
  int64_t size() const override { return walks_.num_nodes(); }
  int64_t heads() const override { return function_heads(f_); }
  std::optional<at::ScalarType> dtype() const override { return f_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return parameters_; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size()), entries = static_cast<double>(walks_.pattern()->entries());
    return {.operator_work = entries,
            .sparse_entries = entries,
            .factor_entries = entries + n,
            .values_work = TensorCache::serves(parameters_) ? 0 : feature_work(walks_),
            .dense_work = n * n};
  }

  std::optional<SparseMatrix> sparse() const override {
    return SparseMatrix{walks_.pattern(), values_.get(compared(), [this](const auto& p) { return features(p); })[0]};
  }
  at::Tensor dense() const override { return sparse()->dense(); }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<AsymmetricGrfMask>(tables_of({walks_}, parameters, 1)[0], parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(walks_.loads(), target)) return shared_from_this();
    return std::make_shared<AsymmetricGrfMask>(walks_.to(target), f_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override { return topomask::matmul(*sparse(), x); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return topomask::matmul_transposed(*sparse(), x); }
  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    return pull_back(parameters_, {sddmm(grad, x, *walks_.pattern(), heads())},
                     [this](const auto& p) { return features(p); });
  }

 private:
  std::vector<at::Tensor> compared() const { return with_seen_loads(parameters_, {walks_}); }

  std::vector<at::Tensor> features(const std::vector<at::Tensor>& parameters) const {
    return {feature_values(walk_features, tables_of({walks_}, parameters, 1)[0], parameters[0], heads())};
  }

  WalkTable walks_;
  at::Tensor f_;
  std::vector<at::Tensor> parameters_;
  TensorCache values_;
};

}  // namespace

MaskPtr asymmetric_grf_mask(const WalkTable& walks, const at::Tensor& f) {
  check_function("asymmetric_grf_mask", "f", f, walks);
  return std::make_shared<AsymmetricGrfMask>(walks, f);
}

}  // namespace topomask
