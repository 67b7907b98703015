#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/mask_tiles.h"
#include "topomask/sparse.h"

namespace TOPOMASK_API topomask {

/// One side of M = Φ₁Φ₂ᵀ: a sparse [N, r] matrix, or a dense tensor [N, r] or [H, N, r].
struct Factor {
  std::optional<SparseMatrix> sparse = {};
  at::Tensor dense = {};
};

struct Factors {
  Factor left;   ///< Φ₁
  Factor right;  ///< Φ₂; both sides are sparse or both dense
};

/// What the planner knows of a mask without computing it; counts are per head.
struct MaskCounts {
  double operator_work = 0;                   ///< multiply-adds of M·x for one column x
  std::optional<double> sparse_entries = {};  ///< nonzeros of M, where `sparse()` is offered; an estimate until built
  std::optional<double> factor_entries = {};  ///< stored entries of Φ₁ and Φ₂ together, where `factors()` is offered
  bool dense_factors = false;
  double values_work = 0;  ///< multiply-adds to refresh the values of `sparse()` from the parameters, per call
  double dense_work = 0;   ///< multiply-adds to make `dense()`, per call
  /// The kind of `tiles()` where it is offered; left empty by masks that offer tiles through dense factors.
  std::optional<TileKind> tiles = {};
  double tile_rank = 0;  ///< r of `tiles`, where they are factors
};

/// What Mask::masked_product_backward returns.
struct MaskedProductGradients {
  at::Tensor a, b, c;
  std::vector<at::Tensor> parameters = {};
};

class Mask;
using MaskPtr = std::shared_ptr<const Mask>;

/// A mask M ∈ R^{N×N} as a linear operator on node signals; one matrix, or one per head over a shared structure.
///
/// A new mask derives from this class and answers three questions about plain tensors: `apply` (M·X),
/// `apply_transposed` (Mᵀ·X) and, where it has parameters, `parameter_gradients`. Everything else here is optional or
/// follows from these. Shapes, batching, autograd, attention and planning are done once, outside. See
/// docs/adding-a-mask.md.
///
/// A mask follows its parameters: every call sees the values they have then, however they were written. What dense(),
/// sparse(), factors() and tiles() return may be cached by the mask and must not be written to.
class Mask : public std::enable_shared_from_this<Mask> {
 public:
  virtual ~Mask() = default;

  virtual std::string name() const = 0;
  virtual int64_t size() const = 0;            ///< N
  virtual int64_t heads() const { return 1; }  ///< H > 1: a matrix per head
  /// float32 or float64: what M·X computes in. Empty: whatever X has.
  virtual std::optional<at::ScalarType> dtype() const { return std::nullopt; }
  virtual std::vector<at::Tensor> parameters() const { return {}; }
  /// Where M·X is computed; by default where the parameters are. Empty: wherever X is.
  virtual std::optional<at::Device> device() const;
  virtual MaskCounts counts() const = 0;

  /// M·x and Mᵀ·x for x [..., N, C], or [..., H, N, C] where heads() = H > 1. Differentiable once, in x and every
  /// parameter.
  at::Tensor matmul(const at::Tensor& x) const;
  at::Tensor matmul_transposed(const at::Tensor& x) const;

  /// M itself, [N, N] or [H, N, N], differentiable. O(N²): for tests, pictures and the dense route.
  virtual at::Tensor dense() const;

  /// M as a sparse matrix whose values are differentiable in the parameters, where it has few nonzeros.
  virtual std::optional<SparseMatrix> sparse() const { return std::nullopt; }

  /// Φ₁, Φ₂ with M = Φ₁Φ₂ᵀ, differentiable in the parameters, where M has such a form.
  /// By default a mask that is sparse offers Φ₁ = M, Φ₂ = I.
  virtual std::optional<Factors> factors() const;

  /// What tiles of M are made of, differentiable in the parameters, where M_ij follows from i and j alone: the fused
  /// route then computes each tile where it uses it. By default dense factors offer theirs.
  virtual std::optional<MaskTiles> tiles() const;

  /// Multiply-adds of `masked_product` per head, where the mask has one of its own.
  virtual std::optional<double> masked_product_work(int64_t features, int64_t value_dim) const;

  /// (M ⊙ A Bᵀ) C, with Mᵀ where `transposed`, for plain A, B [B, H, N, m] and C [B, H, N, d]: the operator route of a
  /// mask that knows better than m·d columns of M·X (causal: chunks).
  virtual at::Tensor masked_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                                    bool transposed) const;

  /// Gradients of ⟨grad, (M ⊙ A Bᵀ) C⟩ in A, B, C and, where wanted, each of parameters(). By default three products of
  /// the same kind, which is all it takes for a mask without parameters.
  virtual MaskedProductGradients masked_product_backward(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                                                         const at::Tensor& grad, bool want_parameters) const;

  /// The same mask with parameters and constants in another precision, `to(at::kDouble)`, or on another device,
  /// `to(at::kCUDA)`. Differentiable in the parameters.
  virtual MaskPtr to(const at::TensorOptions& target) const = 0;

  /// This mask with the values its parameters have now, as a constant: it has no parameters, and later changes of them
  /// do not reach it. Since nobody else can write to its copies, it computes dense(), sparse() and factors() once on
  /// every device and keeps them; on a GPU this mask computes them in every call, because comparing parameters there
  /// would wait for the device. For inference and evaluation. A mask without parameters is returned as it is.
  MaskPtr frozen() const;

  /// The same mask over the same structure with other tensors in place of parameters(), in their order and with their
  /// shapes, dtype and device: nothing is built or checked again. Null where a mask with parameters does not offer it.
  virtual MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const;

 protected:
  // The three questions. x and grad are plain contiguous tensors [B, H, N, C] with H = heads(), of the mask's dtype; no
  // gradient is being recorded. Callers use matmul, which takes care of all of that; the library's own code that
  // computes on plain tensors asks through MaskAnswers.
  virtual at::Tensor apply(const at::Tensor& x) const = 0;
  virtual at::Tensor apply_transposed(const at::Tensor& x) const = 0;
  /// Rows first … first+count−1 of M, [H, count, N] of the dtype and device of `like`, for the route strips. By default
  /// products Mᵀ·e_i, which a mask with entries of −∞ must replace: 0·(−∞) is NaN.
  virtual at::Tensor rows(int64_t first, int64_t count, const at::TensorOptions& like) const;
  /// ∂⟨grad, M·x⟩/∂θ for each of parameters(), of the parameter's shape.
  virtual std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const;

 private:
  friend struct MaskAnswers;

  mutable std::once_flag identity_once_;
  mutable PatternPtr identity_;  // Φ₂ of the default factors, made once
};

}  // namespace topomask
