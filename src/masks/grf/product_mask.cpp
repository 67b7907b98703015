#include "masks/grf/product_mask.h"

#include <ATen/ATen.h>

#include "core/ordered_sums.h"
#include "core/pull_back.h"
#include "sparse/product.h"
#include "sparse/sddmm.h"

namespace topomask {
namespace {

constexpr double kDense = 0.1;  // a multiply-add of a dense product, relative to the planner's unit, a pass over memory

/// δ [N] or [H, N] in a shape that multiplies x [B, H, N, C].
at::Tensor over_columns(const at::Tensor& diagonal) {
  return diagonal.unsqueeze(-1);
}

}  // namespace

ProductMask::ProductMask(std::string name, PatternPtr left, PatternPtr right, std::vector<at::Tensor> parameters,
                         int64_t heads)
    : name_(std::move(name)),
      left_(std::move(left)),
      right_(std::move(right)),
      parameters_(std::move(parameters)),
      heads_(heads) {}

ProductMask::Parts ProductMask::current(const std::vector<at::Tensor>& parameters) const {
  const auto tensors = parts_.get(parameters, [this](const std::vector<at::Tensor>& values) {
    const Parts p = parts(values);
    return std::vector<at::Tensor>{p.left, p.right, p.diagonal};
  });
  return {tensors[0], tensors[1], tensors[2]};
}

const ProductEstimate& ProductMask::estimate() const {
  std::call_once(estimate_once_, [this] { estimate_ = estimate_product({left_, right()}); });
  return estimate_;
}

double ProductMask::product_work() const {
  return (estimate().work + 2 * estimate().entries) * kScatteredUpdate;
}

double ProductMask::dense_gemm() const {
  const auto n = static_cast<double>(size());
  return n * n * static_cast<double>(left_->cols()) * kDense;
}

MaskCounts ProductMask::counts() const {
  const auto n = static_cast<double>(size());
  const double diagonal = has_diagonal() ? n : 0;
  const double entries = static_cast<double>(left_->entries() + right()->entries());
  const PatternPtr known = left_->known_product(right());
  const bool cached = TensorCache::serves(parameters_);
  return {.operator_work = entries + diagonal,
          .sparse_entries = known ? static_cast<double>(known->entries()) : estimate().entries,
          .factor_entries = entries + 2 * diagonal,
          .values_work = cached ? 0 : parts_work() + product_work(),
          .dense_work = n * n + std::min(dense_gemm(), cached ? 0 : product_work())};
}

std::optional<SparseMatrix> ProductMask::sparse() const {
  const PatternPtr pattern = left_->product(right());
  const auto values = values_.get(compared(), [&](const std::vector<at::Tensor>& parameters) {
    if (at::GradMode::is_enabled() && parameters[0].requires_grad()) {
      const at::Tensor learned = learned_values(parameters, *pattern);
      if (learned.defined()) return std::vector<at::Tensor>{learned};
    }
    const Parts p = current(parameters);
    at::Tensor result =
        right_ ? sparse_product({left_, p.left}, {right_, p.right}, *pattern) : sparse_gram({left_, p.left}, *pattern);
    if (p.diagonal.defined()) {
      std::call_once(places_once_, [&] {
        const c10::InferenceMode ordinary(false);
        places_ = diagonal_places(*pattern);
      });
      result = result.index_add(-1, places_, p.diagonal);
    }
    return std::vector<at::Tensor>{result};
  });
  return SparseMatrix{pattern, values[0]};
}

std::optional<Factors> ProductMask::factors() const {
  const Parts p = current();
  if (!p.diagonal.defined()) {
    return Factors{{SparseMatrix{left_, p.left}, {}}, {SparseMatrix{right(), right_ ? p.right : p.left}, {}}};
  }
  std::call_once(appended_once_, [this] {
    const c10::InferenceMode ordinary(false);
    appended_.emplace(*left_);
  });
  return Factors{{(*appended_)(p.left, p.diagonal), {}}, {(*appended_)(p.left, at::ones_like(p.diagonal)), {}}};
}

at::Tensor ProductMask::dense() const {
  if (dense_gemm() > product_work()) return sparse()->dense();
  const Parts p = current();
  const at::Tensor left = SparseMatrix{left_, p.left}.dense();
  const at::Tensor m = ordered_matmul(left, (right_ ? SparseMatrix{right_, p.right}.dense() : left).mT());
  return p.diagonal.defined() ? m + at::diag_embed(p.diagonal) : m;
}

at::Tensor ProductMask::product(const at::Tensor& x, bool transposed) const {
  const Parts p = current();
  const SparseMatrix left{left_, p.left}, right{this->right(), right_ ? p.right : p.left};
  const SparseMatrix &outer = transposed ? right : left, &inner = transposed ? left : right;
  at::Tensor y = topomask::matmul(outer, topomask::matmul_transposed(inner, x));
  if (p.diagonal.defined()) y.addcmul_(x, over_columns(p.diagonal));
  return y;
}

at::Tensor ProductMask::apply(const at::Tensor& x) const {
  return product(x, false);
}

at::Tensor ProductMask::apply_transposed(const at::Tensor& x) const {
  return product(x, true);
}

std::vector<at::Tensor> ProductMask::parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const {
  const Parts p = current();
  const SparseMatrix left{left_, p.left}, right{this->right(), right_ ? p.right : p.left};
  at::Tensor dleft = sddmm(grad, topomask::matmul_transposed(right, x), *left.pattern, heads_);
  at::Tensor dright = sddmm(x, topomask::matmul_transposed(left, grad), *right.pattern, heads_);
  if (!right_) dleft += dright;
  const at::Tensor ddiagonal = p.diagonal.defined() ? node_dots(grad, x) : at::Tensor();
  return pull_back(parameters_, {dleft, dright, ddiagonal}, [this](const std::vector<at::Tensor>& parameters) {
    const Parts made = parts(parameters);
    return std::vector<at::Tensor>{made.left, made.right, made.diagonal};
  });
}

}  // namespace topomask
