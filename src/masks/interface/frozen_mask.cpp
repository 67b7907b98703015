#include "masks/interface/frozen_mask.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <mutex>

#include "core/plain_ops.h"
#include "masks/interface/mask_answers.h"

namespace topomask {
namespace {

/// A mask whose parameters no other object holds; its forms are made on first use.
class FrozenMask final : public Mask {
 public:
  explicit FrozenMask(MaskPtr mask) : mask_(std::move(mask)) {}

  std::string name() const override { return mask_->name(); }
  int64_t size() const override { return mask_->size(); }
  int64_t heads() const override { return mask_->heads(); }
  std::optional<at::ScalarType> dtype() const override { return mask_->dtype(); }
  std::optional<at::Device> device() const override { return mask_->device(); }

  /// Counts may be estimates until the sparse form has been built, and a route would then depend on what was computed
  /// before. Here the form is built first, so that evaluations of the same values take the same route, to the last bit.
  MaskCounts counts() const override {
    constexpr double kMostEntries = 1 << 24;
    MaskCounts counts = mask_->counts();
    if (counts.sparse_entries && *counts.sparse_entries <= kMostEntries && sparse()) counts = mask_->counts();
    counts.values_work = counts.dense_work = 0;  // done once
    return counts;
  }

  at::Tensor dense() const override {
    return once(dense_, [this] { return mask_->dense(); });
  }
  std::optional<SparseMatrix> sparse() const override {
    return once(sparse_, [this] { return mask_->sparse(); });
  }
  std::optional<Factors> factors() const override {
    return once(factors_, [this] { return mask_->factors(); });
  }

  std::optional<MaskTiles> tiles() const override {
    return once(tiles_, [this] { return mask_->tiles(); });
  }

  std::optional<double> masked_product_work(int64_t features, int64_t value_dim) const override {
    return mask_->masked_product_work(features, value_dim);
  }
  at::Tensor masked_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                            bool transposed) const override {
    return mask_->masked_product(a, b, c, transposed);
  }
  MaskedProductGradients masked_product_backward(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                                                 const at::Tensor& grad, bool want_parameters) const override {
    return mask_->masked_product_backward(a, b, c, grad, want_parameters);
  }

  MaskPtr to(const at::TensorOptions& target) const override {
    const MaskPtr moved = mask_->to(target);
    return moved == mask_ ? shared_from_this() : std::make_shared<FrozenMask>(moved);
  }

  at::Tensor apply(const at::Tensor& x) const override { return MaskAnswers::apply(*mask_, x); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return MaskAnswers::apply_transposed(*mask_, x); }
  at::Tensor rows(int64_t first, int64_t count, const at::TensorOptions& like) const override {
    return MaskAnswers::rows(*mask_, first, count, like);
  }

 private:
  template <class Form>
  struct Once {
    std::once_flag flag;
    Form form;
  };

  template <class Form, class Make>
  static const Form& once(Once<Form>& kept, const Make& make) {
    std::call_once(kept.flag, [&] {
      const c10::InferenceMode ordinary(false);  // what is kept may later be saved for a backward pass
      const at::NoGradGuard no_grad;
      const NoAutocast no_autocast;
      kept.form = make();
    });
    return kept.form;
  }

  MaskPtr mask_;
  mutable Once<at::Tensor> dense_;
  mutable Once<std::optional<SparseMatrix>> sparse_;
  mutable Once<std::optional<Factors>> factors_;
  mutable Once<std::optional<MaskTiles>> tiles_;
};

}  // namespace

MaskPtr frozen_if_offered(const Mask& mask) {
  const auto parameters = mask.parameters();
  if (parameters.empty()) return mask.shared_from_this();
  const c10::InferenceMode ordinary(false);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> copies;
  for (const at::Tensor& p : parameters) copies.push_back(p.detach().clone());
  const MaskPtr constant = mask.rebuild(copies);
  return constant ? std::make_shared<FrozenMask>(constant) : nullptr;
}

}  // namespace topomask
