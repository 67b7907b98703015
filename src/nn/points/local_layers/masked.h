#pragma once

#include <torch/nn/modules/linear.h>

#include "topomask/nn/local_layer.h"

namespace topomask {

/// The function f of hops, as a module of its own: parameter_kind recognises its parameter by the name "mask".
class HopFunction : public torch::nn::Module {
 public:
  explicit HopFunction(const at::Tensor& start) : f(register_parameter("f", start)) {}
  at::Tensor f;
};

/// float32 [terms]: exp(−decay·k).
at::Tensor decaying(double decay, int64_t terms);

/// Local kernel attention with one head: queries, keys and values by one dense layer, φ = ReLU of the first two.
class MaskedLocalLayer : public LocalLayer {
 public:
  MaskedLocalLayer(const PointModelOptions& options, const at::Tensor& start);

  at::Tensor forward(const at::Tensor& x, const LocalStructure& structure) final;

 protected:
  /// Attention of features q, k [B·M, m] and values v [B·M, d] → [B·M, d].
  virtual at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const LocalStructure& structure) = 0;
  const at::Tensor& f() const { return function_->f; }

 private:
  torch::nn::Linear qkv_, projection_;
  std::shared_ptr<HopFunction> function_;
};

/// structure.neighbours, [B, M, k].
void add_neighbours(LocalStructure& structure, int64_t k);

}  // namespace topomask
