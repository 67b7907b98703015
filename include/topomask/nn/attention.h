#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "topomask/export.h"
#include "topomask/feature_map.h"
#include "topomask/mask.h"

namespace TOPOMASK_API topomask {

// Shapes: B images, H heads, T tokens (the nodes of a graph after any global ones), d dimensions of a head.

/// The mask of one layer, as a module that owns its learned parameters.
class MaskSource : public torch::nn::Module {
 public:
  /// With `global_tokens` before the nodes, their rows and columns 1.
  explicit MaskSource(int64_t global_tokens = 0) : global_tokens_(global_tokens) {}

  /// The mask over all tokens, with the parameters' present values, precision and device. Where it is made of the
  /// parameters themselves it is kept and follows them; where it is made of functions of them, it is new every time.
  MaskPtr mask();

  /// From now until release(), mask() is Mask::frozen with the parameters' present values: a constant that is computed
  /// once for many batches. Where the mask does not offer that, nothing changes.
  void freeze();
  void release() { frozen_ = nullptr; }

  /// The coefficients that a picture of the mask would show, [H, K]; undefined where there are none.
  virtual at::Tensor modulation() const { return {}; }

 protected:
  virtual MaskPtr make() const = 0;  ///< the mask over the nodes

 private:
  int64_t global_tokens_;
  MaskPtr frozen_;
  MaskPtr kept_;
  at::TensorOptions kept_for_;  // precision and device of the parameters then
};

/// Any mask as a source; its parameters are registered as `0`, `1`, …
class GivenMask final : public MaskSource {
 public:
  explicit GivenMask(MaskPtr mask, int64_t global_tokens = 0);

 protected:
  MaskPtr make() const override { return mask_; }

 private:
  MaskPtr mask_;  // over all tokens
};

/// MaskSource::freeze for every mask of a model, released when it goes out of scope: for the batches of an evaluation,
/// during which no parameter changes.
class FrozenMasks {
 public:
  explicit FrozenMasks(const torch::nn::Module& model);
  ~FrozenMasks();
  FrozenMasks(const FrozenMasks&) = delete;
  FrozenMasks& operator=(const FrozenMasks&) = delete;

 private:
  std::vector<std::shared_ptr<MaskSource>> sources_;
};

/// How heads attend once there are queries, keys and values.
class AttentionVariant : public torch::nn::Module {
 public:
  /// `source`, the child module "mask", may be null: attention without a mask.
  explicit AttentionVariant(std::shared_ptr<MaskSource> source);

  /// q, k, v [B, H, T, d] → [B, H, T, d].
  virtual at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) = 0;

  /// The same for q, k and v as one layer makes them, qkv [B, T, 3, H, d]. By default it splits them and calls forward.
  virtual at::Tensor forward_together(const at::Tensor& qkv);

  /// Row `token` of the attention matrix, [B, H, T]: how much it takes from each token. O(T²): for pictures.
  at::Tensor row(const at::Tensor& q, const at::Tensor& k, int64_t token);

  MaskPtr mask();                 ///< null where there is none
  at::Tensor modulation() const;  ///< [H, K], or undefined

 private:
  std::shared_ptr<MaskSource> source_;
};

/// D⁻¹(M ⊙ φ(Q)φ(K)ᵀ)V.
class KernelAttention final : public AttentionVariant {
 public:
  KernelAttention(std::shared_ptr<MaskSource> source, FeatureMap features);
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override;
  at::Tensor forward_together(const at::Tensor& qkv) override;

 private:
  FeatureMap features_;
};

/// softmax(QKᵀ/√d + M)V, M added to every pair of tokens; without a mask torch's fused attention.
class SoftmaxAttention final : public AttentionVariant {
 public:
  explicit SoftmaxAttention(std::shared_ptr<MaskSource> source = nullptr) : AttentionVariant(std::move(source)) {}
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override;
};

/// Multi-head attention: queries, keys and values by one linear layer, heads side by side, and a linear layer after.
class MultiheadAttention final : public torch::nn::Module {
 public:
  MultiheadAttention(int64_t width, int64_t heads, std::shared_ptr<AttentionVariant> variant);

  at::Tensor forward(const at::Tensor& x);             ///< [B, T, width] → [B, T, width]
  at::Tensor row(const at::Tensor& x, int64_t token);  ///< AttentionVariant::row, [B, H, T]
  AttentionVariant& variant() { return *variant_; }

 private:
  at::Tensor together(const at::Tensor& x);  // q, k and v, [B, T, 3, H, d]

  int64_t heads_;
  torch::nn::Linear qkv_, projection_;
  std::shared_ptr<AttentionVariant> variant_;
};

}  // namespace topomask
