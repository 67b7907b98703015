#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include "topomask/nn/graph_model.h"

namespace topomask {

/// What a transformer receives about the position of a node in its graph: an embedding of its degree, linear functions
/// of its Laplacian eigenvectors and of its return probabilities, added to the embedding of its features.
class StructuralInputs final : public torch::nn::Module {
 public:
  explicit StructuralInputs(const GraphModelOptions& options);

  NodeRows positions(const GraphSet& set) const;

  /// Entries in Laplacian eigenvectors, [N, at least wire and laplacian_positions]; while training, each eigenvector of
  /// each graph with a random sign where flip_signs. Undefined where they are not used.
  at::Tensor eigenvectors(const GraphSample& sample, const GraphStructure& structure) const;

  /// x [N, width] with all encodings that the options ask for.
  at::Tensor add_to(const at::Tensor& x, const at::Tensor& eigenvectors, const GraphSample& sample,
                    const GraphStructure& structure);

 private:
  GraphModelOptions options_;
  at::Tensor degree_;  // [max_degree + 1, width]
  torch::nn::Linear laplacian_{nullptr}, random_walk_{nullptr};
};

/// Rotary encoding on graphs (WIRE, Reid et al. 2025): coordinates 2p and 2p + 1 of x [H, N, d] are rotated by the
/// angle ω_hp·r_i, r [N, s], ω [H, ⌊d/2⌋, s]. It is applied before the feature map φ.
at::Tensor rotated_by_positions(const at::Tensor& x, const at::Tensor& r, const at::Tensor& omega);

}  // namespace topomask
