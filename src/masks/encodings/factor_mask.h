#pragma once

#include "core/tensor_cache.h"
#include "topomask/mask.h"

namespace topomask {

/// M = L·Rᵀ for dense L and R of width r. An encoding derives from it and says how they follow from its parameters, in
/// differentiable tensor operations; products, forms, gradients and counts are done here.
class FactorMask : public Mask {
 public:
  std::string name() const override { return name_; }
  int64_t size() const override { return nodes_; }
  int64_t heads() const override { return heads_; }
  std::optional<at::ScalarType> dtype() const override { return parameters_[0].scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return parameters_; }
  MaskCounts counts() const override;

  std::optional<Factors> factors() const override;
  at::Tensor dense() const override;

  at::Tensor apply(const at::Tensor& x) const override;
  at::Tensor apply_transposed(const at::Tensor& x) const override;
  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override;

 protected:
  struct Sides {
    at::Tensor left;        ///< [N, r] or [H, N, r]
    at::Tensor right = {};  ///< like it; undefined: R = L
  };

  FactorMask(std::string name, int64_t nodes, int64_t width, int64_t heads, std::vector<at::Tensor> parameters);

  virtual Sides sides(const std::vector<at::Tensor>& parameters) const = 0;
  virtual double sides_work() const = 0;  ///< multiply-adds of sides() per head

 private:
  std::vector<at::Tensor> computed(const std::vector<at::Tensor>& parameters) const;
  Sides current() const;  ///< both sides

  std::string name_;
  int64_t nodes_, width_, heads_;
  std::vector<at::Tensor> parameters_;
  TensorCache sides_;
};

}  // namespace topomask
