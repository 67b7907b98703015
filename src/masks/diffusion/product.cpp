#include <ATen/ATen.h>

#include <limits>

#include "core/checks.h"
#include "core/library_tasks.h"
#include "core/move.h"
#include "core/ordered_sums.h"
#include "core/plain_ops.h"
#include "graph/weights.h"
#include "masks/diffusion/generator.h"
#include "topomask/diffusion.h"

namespace topomask {
namespace {

constexpr const char* kProductOp = "product_diffusion_mask";

/// T of one factor graph, and its eigenvalues and eigenvectors: T = Q diag(θ) Qᵀ. Float64.
struct GraphFactor {
  at::Tensor generator, values, vectors;

  int64_t nodes() const { return values.size(0); }
  /// exp(−λT) for each λ [H]: [H, n, n].
  at::Tensor exponentials(const at::Tensor& lambda) const {
    const at::Tensor decay = (-lambda.unsqueeze(1) * values).exp();  // [H, n]
    return ordered_matmul(vectors * decay.unsqueeze(1), vectors.t());
  }
};

class ProductDiffusionMask final : public Mask {
 public:
  ProductDiffusionMask(std::vector<GraphFactor> factors, at::Tensor lambda)
      : factors_(std::move(factors)), lambda_(std::move(lambda)) {
    for (const GraphFactor& factor : factors_) nodes_ *= factor.nodes();
  }

  std::string name() const override { return "product_diffusion"; }
  int64_t size() const override { return nodes_; }
  int64_t heads() const override { return lambda_.numel(); }
  std::optional<at::ScalarType> dtype() const override { return lambda_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {lambda_}; }

  MaskCounts counts() const override {
    double work = 0;
    for (const GraphFactor& factor : factors_) work += static_cast<double>(nodes_ * factor.nodes());
    const auto n = static_cast<double>(nodes_);
    return {.operator_work = 0.4 * work + 2 * n * static_cast<double>(factors_.size()), .dense_work = 0.16 * n * work};
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<ProductDiffusionMask>(factors_, parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(lambda_, target)) return shared_from_this();
    std::vector<GraphFactor> there;
    for (const GraphFactor& f : factors_) {
      there.push_back({moved(f.generator, target), moved(f.values, target), moved(f.vectors, target)});
    }
    return std::make_shared<ProductDiffusionMask>(std::move(there), lambda_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override {
    const PlainOps plain;
    lambda_values(kProductOp, lambda_);
    const at::Tensor lambda = lambda_.detach().reshape(-1).to(at::kDouble);
    at::Tensor y = x;
    for (size_t axis = 0; axis < factors_.size(); ++axis) {
      y = along_axis(axis, factors_[axis].exponentials(lambda).to(x.scalar_type()), y);
    }
    return y.is_same(x) ? x.clone() : y;
  }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return apply(x); }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    // ∂M/∂λ = −T·M, and T is the sum of the factors' along their axes.
    const PlainOps plain;
    const at::Tensor y = apply(x);
    at::Tensor slope = at::zeros({heads()}, x.options());
    for (size_t axis = 0; axis < factors_.size(); ++axis) {
      const int64_t n = factors_[axis].nodes();
      const at::Tensor generator = factors_[axis].generator.to(x.scalar_type()).expand({heads(), n, n});
      slope.sub_(head_dots(along_axis(axis, generator, y), grad));
    }
    return {slope.view_as(lambda_)};
  }

 private:
  /// matrices [H, n, n] along one axis of the product, x [B, H, N, C].
  at::Tensor along_axis(size_t axis, const at::Tensor& matrices, const at::Tensor& x) const {
    const int64_t n = factors_[axis].nodes();
    int64_t before = 1;
    for (size_t earlier = 0; earlier < axis; ++earlier) before *= factors_[earlier].nodes();
    if (x.numel() == 0) return x;
    const int64_t blocks = x.size(0) * before, behind = nodes_ / (before * n) * x.size(3);
    if (heads() == 1) {
      return ordered_matmul(matrices.expand({blocks, n, n}), x.reshape({blocks, n, behind})).view(x.sizes());
    }
    at::Tensor y = at::empty_like(x);
    for (int64_t head = 0; head < heads(); ++head) {
      const at::Tensor lines = x.select(1, head).reshape({blocks, n, behind});
      y.select(1, head).copy_(
          ordered_matmul(matrices[head].expand({blocks, n, n}), lines).view({x.size(0), nodes_, x.size(3)}));
    }
    return y;
  }

  std::vector<GraphFactor> factors_;
  int64_t nodes_ = 1;
  at::Tensor lambda_;
};

}  // namespace

MaskPtr product_diffusion_mask(const std::vector<Graph>& factors, const at::Tensor& lambda, Generator generator) {
  check_lambda(kProductOp, lambda);
  TORCH_CHECK(generator != Generator::normalised_laplacian, kProductOp,
              ": generator must be adjacency or laplacian, got normalised_laplacian, which is no sum over the factors");
  TORCH_CHECK(!factors.empty(), kProductOp, ": factors must be at least one graph, got none");
  std::vector<GraphFactor> decomposed;
  int64_t nodes = 1;
  for (const Graph& graph : factors) {
    check_constant_weights(
        kProductOp, "factors", graph,
        "the eigenvectors are constants, and diffusion_mask of the cartesian_product differentiates");
    const int64_t n = graph.num_nodes();
    TORCH_CHECK(n == 0 || nodes <= std::numeric_limits<int32_t>::max() / n, kProductOp,
                ": the product must have at most 2^31-1 nodes, got ", nodes, " times ", n);
    nodes *= n;
    const GeneratorMatrix matrix = generator_matrix(kProductOp, graph.to(at::kDouble), generator);
    const at::Tensor dense = matrix.edges.dense() + matrix.diagonal.diag();
    const OneLibraryThread alone;
    auto [values, vectors] = at::linalg_eigh(dense);
    decomposed.push_back({dense, std::move(values), std::move(vectors)});
  }
  return std::make_shared<ProductDiffusionMask>(std::move(decomposed), lambda);
}

}  // namespace topomask
