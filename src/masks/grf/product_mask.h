#pragma once

#include "core/tensor_cache.h"
#include "masks/grf/appended_diagonal.h"
#include "sparse/product_estimate.h"
#include "topomask/mask.h"

namespace topomask {

/// M = L·Rᵀ + diag(δ) for sparse L and R. An estimator derives from it and says how the values of L and R, and δ,
/// follow from its parameters, in differentiable tensor operations; products, forms, gradients and counts are done
/// here.
class ProductMask : public Mask {
 public:
  std::string name() const override { return name_; }
  int64_t size() const override { return left_->rows(); }
  int64_t heads() const override { return heads_; }
  std::optional<at::ScalarType> dtype() const override { return parameters_[0].scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return parameters_; }
  MaskCounts counts() const override;

  std::optional<SparseMatrix> sparse() const override;
  std::optional<Factors> factors() const override;
  at::Tensor dense() const override;

  at::Tensor apply(const at::Tensor& x) const override;
  at::Tensor apply_transposed(const at::Tensor& x) const override;
  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override;

 protected:
  /// Values as SparseMatrix takes them for heads() heads; δ [N] or [H, N].
  struct Parts {
    at::Tensor left;
    at::Tensor right = {};     ///< undefined: R = L
    at::Tensor diagonal = {};  ///< undefined: none; only where R = L
  };

  /// `right` null: R = L.
  ProductMask(std::string name, PatternPtr left, PatternPtr right, std::vector<at::Tensor> parameters, int64_t heads);

  virtual Parts parts(const std::vector<at::Tensor>& parameters) const = 0;
  virtual double parts_work() const = 0;  ///< multiply-adds of parts() per head
  /// Cached values are valid while these are unchanged: the parameters, followed by what else may change.
  virtual std::vector<at::Tensor> compared() const { return parameters_; }
  virtual bool has_diagonal() const { return false; }
  /// The values of M over `product` while a gradient is recorded, where there is a shorter way than parts() and the
  /// product of the two; undefined where not.
  virtual at::Tensor learned_values(const std::vector<at::Tensor>& /*parameters*/,
                                    const SparsePattern& /*product*/) const {
    return {};
  }

 private:
  Parts current(const std::vector<at::Tensor>& parameters) const;  ///< cached
  Parts current() const { return current(compared()); }
  const PatternPtr& right() const { return right_ ? right_ : left_; }
  at::Tensor product(const at::Tensor& x, bool transposed) const;
  const ProductEstimate& estimate() const;
  // Ways to the values of M, in the planner's multiply-adds.
  double product_work() const;  ///< over the pattern
  double dense_gemm() const;    ///< from dense L and R

  std::string name_;
  PatternPtr left_, right_;
  std::vector<at::Tensor> parameters_;
  int64_t heads_;
  TensorCache parts_, values_;
  mutable std::once_flag estimate_once_, places_once_, appended_once_;
  mutable ProductEstimate estimate_;
  mutable at::Tensor places_;  // of the diagonal in the product
  mutable std::optional<AppendedDiagonal> appended_;
};

}  // namespace topomask
