#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/checks.h"
#include "core/library_tasks.h"
#include "core/move.h"
#include "core/ordered_sums.h"
#include "core/plain_ops.h"
#include "masks/diffusion/generator.h"
#include "topomask/diffusion.h"

namespace topomask {
namespace {

constexpr const char* kLowRankOp = "low_rank_diffusion_mask";

/// λφ₁(λVᵀU) for λ [H]: [H, r, r]. The exponential of [[Z, I], [0, 0]] is [[e^Z, φ₁(Z)], [0, I]], also where Z is
/// singular. Differentiable.
at::Tensor core_of(const at::Tensor& u, const at::Tensor& v, const at::Tensor& lambda) {
  const NoAutocast no_autocast;
  const OneLibraryThread alone;  // the products inside the exponential are small
  const int64_t rank = u.size(1);
  const at::Tensor times = lambda.reshape({-1, 1, 1});
  // [H, r, r]. The gradient of λ sums over r²; after a plain product, autograd would divide that sum among threads.
  const at::Tensor z = ordered_mul(ordered_matmul(v.t(), u).expand({times.size(0), rank, rank}), times);
  const at::Tensor identity = at::eye(rank, u.options().requires_grad(false)).expand_as(z);
  const at::Tensor above = at::cat({z, identity}, -1), below = at::zeros_like(above);
  const at::Tensor exponential = at::linalg_matrix_exp(at::cat({above, below}, -2));
  return ordered_mul(exponential.narrow(-2, 0, rank).narrow(-1, rank, rank), times);
}

class LowRankDiffusionMask final : public Mask {
 public:
  LowRankDiffusionMask(at::Tensor u, at::Tensor v, at::Tensor lambda)
      : u_(std::move(u)), v_(std::move(v)), lambda_(std::move(lambda)) {}

  std::string name() const override { return "low_rank_diffusion"; }
  int64_t size() const override { return u_.size(0); }
  int64_t heads() const override { return lambda_.numel(); }
  std::optional<at::ScalarType> dtype() const override { return u_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {u_, v_, lambda_}; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size()), r = static_cast<double>(u_.size(1));
    MaskCounts counts{.operator_work = 0.3 * (2 * n * r + r * r) + n, .dense_work = 0.1 * (n * n * r) + n * n};
    if (offers_tiles()) {
      counts.tiles = TileKind::factors;
      counts.tile_rank = r;
      counts.values_work = 0.3 * n * r * r;
    }
    return counts;
  }

  std::optional<MaskTiles> tiles() const override {
    if (!offers_tiles()) return std::nullopt;
    const NoAutocast no_autocast;
    const at::Tensor left = left_factor();
    return MaskTiles{.kind = TileKind::factors, .values = left, .right = v_.expand_as(left), .shift = 1};
  }

  at::Tensor dense() const override {
    const NoAutocast no_autocast;
    const at::Tensor left = left_factor();
    const at::Tensor matrix = at::eye(size(), left.options().requires_grad(false)) + ordered_matmul(left, v_.t());
    return heads() == 1 ? matrix[0] : matrix;
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<LowRankDiffusionMask>(parameters[0], parameters[1], parameters[2]);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(u_, target)) return shared_from_this();
    return std::make_shared<LowRankDiffusionMask>(u_.to(target), v_.to(target), lambda_.to(target));
  }

  at::Tensor apply(const at::Tensor& x) const override { return product(u_, core(), v_, x); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return product(v_, core().mT(), u_, x); }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    // ⟨grad, U S Vᵀ x⟩ depends on x and grad through small matrices: Vᵀx [B, H, r, C] and Uᵀgrad. What S depends on,
    // autograd follows.
    const at::AutoGradMode record(true);
    const NoAutocast no_autocast;
    const OneLibraryThread alone;
    const at::Tensor u = u_.detach().requires_grad_(), v = v_.detach().requires_grad_();
    const at::Tensor lambda = lambda_.detach().requires_grad_();
    const at::Tensor inner = ordered_matmul(core_of(u, v, lambda), ordered_matmul(v.t(), x));
    const at::Tensor value = (ordered_matmul(u.t(), grad) * inner).sum();
    return torch::autograd::grad({value}, {u, v, lambda});
  }

 private:
  /// The kernels on a GPU do not add to the diagonal of factors.
  bool offers_tiles() const { return u_.is_cpu(); }

  void check_lambda() const {
    if (lambda_.is_cpu()) lambda_values(kLowRankOp, lambda_);  // a GPU would be waited for
  }

  at::Tensor core() const {
    check_lambda();
    return core_of(u_.detach(), v_.detach(), lambda_.detach());
  }

  /// M − I = left·vᵀ: [H, N, r], differentiable in the parameters.
  at::Tensor left_factor() const {
    check_lambda();
    return ordered_matmul(u_, core_of(u_, v_, lambda_));
  }

  at::Tensor product(const at::Tensor& left, const at::Tensor& core, const at::Tensor& right,
                     const at::Tensor& x) const {
    const PlainOps plain;
    const at::Tensor inner = ordered_matmul(core, ordered_matmul(right.detach().t(), x));
    return ordered_matmul(left.detach(), inner).add_(x);
  }

  at::Tensor u_, v_, lambda_;
};

void check_factor(const char* name, const at::Tensor& factor) {
  TORCH_CHECK(factor.defined() && factor.dim() == 2 && is_real(factor.scalar_type()), kLowRankOp, ": ", name,
              " must be Float or Double [N, r], got ", describe(factor));
  check_finite(kLowRankOp, name, factor);
}

}  // namespace

MaskPtr low_rank_diffusion_mask(const at::Tensor& u, const at::Tensor& v, const at::Tensor& lambda) {
  check_factor("u", u);
  check_factor("v", v);
  check_lambda(kLowRankOp, lambda);
  TORCH_CHECK(v.sizes() == u.sizes() && v.scalar_type() == u.scalar_type() && v.device() == u.device(), kLowRankOp,
              ": v must be like u, ", describe(u), ", got ", describe(v));
  TORCH_CHECK(lambda.scalar_type() == u.scalar_type() && lambda.device() == u.device(), kLowRankOp, ": lambda must be ",
              u.scalar_type(), " as u is, on ", u.device(), ", got ", describe(lambda));
  return std::make_shared<LowRankDiffusionMask>(u, v, lambda);
}

}  // namespace topomask
