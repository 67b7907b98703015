#include <ATen/ATen.h>

#include "core/checks.h"
#include "core/ordered_sums.h"
#include "topomask/masks.h"

namespace topomask {
namespace {

class DenseMask final : public Mask {
 public:
  explicit DenseMask(at::Tensor matrix) : matrix_(std::move(matrix)) {}

  std::string name() const override { return "dense"; }
  int64_t size() const override { return matrix_.size(-1); }
  int64_t heads() const override { return matrix_.dim() == 3 ? matrix_.size(0) : 1; }
  std::optional<at::ScalarType> dtype() const override { return matrix_.scalar_type(); }
  std::vector<at::Tensor> parameters() const override { return {matrix_}; }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size());
    return {.operator_work = n * n, .tiles = TileKind::matrix};
  }

  at::Tensor dense() const override { return matrix_; }
  std::optional<MaskTiles> tiles() const override {
    return MaskTiles{.kind = TileKind::matrix, .values = matrix_.dim() == 3 ? matrix_ : matrix_.unsqueeze(0)};
  }
  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    return std::make_shared<DenseMask>(parameters[0]);
  }
  MaskPtr to(const at::TensorOptions& target) const override { return dense_mask(matrix_.to(target)); }
  at::Tensor apply(const at::Tensor& x) const override { return ordered_matmul(plain(), x); }
  at::Tensor apply_transposed(const at::Tensor& x) const override { return ordered_matmul(plain().mT(), x); }
  at::Tensor rows(int64_t first, int64_t count, const at::TensorOptions& like) const override {
    const at::Tensor matrix = matrix_.dim() == 3 ? plain() : plain().unsqueeze(0);
    return matrix.narrow(1, first, count).to(like, /*non_blocking=*/false, /*copy=*/true);
  }

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    return {outer_sums(grad, x).view_as(matrix_)};
  }

 private:
  at::Tensor plain() const { return matrix_.detach(); }

  at::Tensor matrix_;
};

}  // namespace

MaskPtr dense_mask(const at::Tensor& matrix) {
  TORCH_CHECK(!matrix.defined() || matrix.dim() != 3 || matrix.size(0) >= 1,
              "dense_mask: matrix must have at least one head, got ", describe(matrix));
  TORCH_CHECK(matrix.defined() && (matrix.dim() == 2 || matrix.dim() == 3) && matrix.size(-1) == matrix.size(-2) &&
                  is_real(matrix.scalar_type()),
              "dense_mask: matrix must be Float or Double, [N, N] or [H, N, N], got ", describe(matrix));
  check_below_infinity("dense_mask", "matrix", matrix);
  return std::make_shared<DenseMask>(matrix);
}

}  // namespace topomask
