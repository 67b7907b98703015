#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/checks.h"
#include "core/move.h"
#include "core/ordered_sums.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

class ProjectedMask final : public Mask {
 public:
  ProjectedMask(MaskPtr mask, at::Tensor signs) : mask_(std::move(mask)), signs_(std::move(signs)) {}

  std::string name() const override { return mask_->name() + ", projected to width " + std::to_string(signs_.size(1)); }
  int64_t size() const override { return mask_->size(); }
  int64_t heads() const override { return mask_->heads(); }
  std::optional<at::ScalarType> dtype() const override { return signs_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return mask_->parameters(); }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size()), width = static_cast<double>(signs_.size(1));
    const double projection = *mask_->counts().factor_entries * width;
    return {.operator_work = 2 * n * width + projection,
            .factor_entries = 2 * n * width,
            .dense_factors = true,
            .values_work = projection,
            .dense_work = n * n * width};
  }

  std::optional<Factors> factors() const override {
    const auto inner = mask_->factors();
    return Factors{{{}, projected(*inner->left.sparse)}, {{}, projected(*inner->right.sparse)}};
  }

  at::Tensor dense() const override {
    const auto f = factors();
    return ordered_matmul(f->left.dense, f->right.dense.mT());
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    const MaskPtr mask = mask_->rebuild(parameters);
    return mask ? std::make_shared<ProjectedMask>(mask, signs_) : nullptr;
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(signs_, target)) return shared_from_this();
    return std::make_shared<ProjectedMask>(mask_->to(target), signs_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override {
    const auto f = factors();
    return ordered_matmul(f->left.dense, ordered_matmul(f->right.dense.mT(), x));
  }
  at::Tensor apply_transposed(const at::Tensor& x) const override {
    const auto f = factors();
    return ordered_matmul(f->right.dense, ordered_matmul(f->left.dense.mT(), x));
  }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    const auto parameters = this->parameters();
    const at::AutoGradMode recording(true);
    const auto f = factors();
    const at::Tensor y = ordered_matmul(f->left.dense, ordered_matmul(f->right.dense.mT(), x));
    std::vector<at::Tensor> learnable, result;
    for (const at::Tensor& p : parameters) {
      if (p.requires_grad()) learnable.push_back(p);
    }
    auto grads = torch::autograd::grad({y}, learnable, {grad}, /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                       /*allow_unused=*/true);
    size_t next = 0;
    for (const at::Tensor& p : parameters) {
      at::Tensor g = p.requires_grad() ? grads[next++] : at::Tensor();
      result.push_back(g.defined() ? g : at::zeros_like(p));
    }
    return result;
  }

 private:
  /// F·P: [N, width] or [H, N, width].
  at::Tensor projected(const SparseMatrix& factor) const {
    if (factor.heads() == 1) return topomask::matmul({factor.pattern, factor.values.reshape({-1})}, signs_);
    std::vector<at::Tensor> heads;
    for (const at::Tensor& values : factor.values.unbind(0)) {
      heads.push_back(topomask::matmul({factor.pattern, values}, signs_));
    }
    return at::stack(heads);
  }

  MaskPtr mask_;
  at::Tensor signs_;  // ±1/√width [r, width]
};

}  // namespace

MaskPtr projected_mask(const MaskPtr& mask, const ProjectionOptions& options) {
  TORCH_CHECK(mask != nullptr, "projected_mask: mask must be given, got none");
  TORCH_CHECK(options.width >= 1, "projected_mask: width must be >= 1, got ", options.width);
  const auto counts = mask->counts();
  TORCH_CHECK(counts.factor_entries && !counts.dense_factors,
              "projected_mask: mask must have sparse factors, got mask ", mask->name());
  const auto factors = mask->factors();
  const SparseMatrix& left = *factors->left.sparse;
  checked_product("projected_mask", "the signs, factor columns x width,", {left.pattern->cols(), options.width},
                  kMostNumbers);
  const at::Tensor bits =
      at::randint(0, 2, {left.pattern->cols(), options.width}, at::detail::createCPUGenerator(options.seed), at::kLong);
  const at::Tensor signs = (2 * bits - 1).to(at::kDouble) / std::sqrt(static_cast<double>(options.width));
  return std::make_shared<ProjectedMask>(mask, signs.to(left.values.options().requires_grad(false)));
}

}  // namespace topomask
