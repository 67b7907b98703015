#include <ATen/ATen.h>

#include "core/checks.h"
#include "core/move.h"
#include "masks/sparse/with_diagonal.h"
#include "sparse/sddmm.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

/// W + I with the weights of the graph as its parameter.
class WeightedNeighboursMask final : public Mask {
 public:
  WeightedNeighboursMask(WithDiagonal structure, at::Tensor weights)
      : structure_(std::move(structure)), weights_(std::move(weights)) {}

  std::string name() const override { return "weighted_neighbours"; }
  int64_t size() const override { return structure_.pattern->rows(); }
  std::optional<at::ScalarType> dtype() const override { return weights_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {weights_}; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size()), entries = static_cast<double>(structure_.pattern->entries());
    return {.operator_work = entries,
            .sparse_entries = entries,
            .factor_entries = entries + n,
            .values_work = entries,
            .dense_work = n * n};
  }

  std::optional<SparseMatrix> sparse() const override { return SparseMatrix{structure_.pattern, values(weights_)}; }
  at::Tensor dense() const override { return sparse()->dense(); }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<WeightedNeighboursMask>(structure_, parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(weights_, target)) return shared_from_this();
    const WithDiagonal there{moved(structure_.pattern, target), moved(structure_.edges, target),
                             moved(structure_.diagonal, target)};
    return std::make_shared<WeightedNeighboursMask>(there, weights_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override { return topomask::matmul(plain(), x); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return topomask::matmul_transposed(plain(), x); }
  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    return {sddmm(grad, x, *structure_.pattern, 1).squeeze(0).index_select(0, structure_.edges)};
  }

 private:
  /// Every entry receives at most one weight, so that no order of additions matters.
  at::Tensor values(const at::Tensor& weights) const {
    const auto options = weights.options().requires_grad(false);
    const at::Tensor identity =
        at::zeros({structure_.pattern->entries()}, options).index_fill(0, structure_.diagonal, 1);
    return identity + at::zeros_like(identity).index_copy(0, structure_.edges, weights);
  }
  SparseMatrix plain() const { return {structure_.pattern, values(weights_.detach())}; }

  WithDiagonal structure_;
  at::Tensor weights_;
};

}  // namespace

MaskPtr weighted_neighbours_mask(const Graph& graph, const at::Tensor& weights) {
  const at::Tensor& w = weights.defined() ? weights : graph.weights();
  TORCH_CHECK(
      is_real(w.scalar_type()) && w.dim() == 1 && w.size(0) == graph.num_entries() && w.device() == graph.device(),
      "weighted_neighbours_mask: weights must be Float or Double [", graph.num_entries(), "] on ", graph.device(),
      ", got ", describe(w));
  check_finite("weighted_neighbours_mask", "weights", w);
  return std::make_shared<WeightedNeighboursMask>(with_diagonal(graph.pattern()), w);
}

}  // namespace topomask
