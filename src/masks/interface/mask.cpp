#include "topomask/mask.h"

#include <ATen/ATen.h>

#include "core/checks.h"
#include "core/shapes.h"
#include "masks/interface/frozen_mask.h"
#include "masks/interface/mask_answers.h"
#include "masks/interface/mask_holder.h"
#include "sparse/identity.h"

namespace topomask {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// M·x or Mᵀ·x over plain tensors, with the mask's own answers as derivatives.
struct MatmulFunction : torch::autograd::Function<MatmulFunction> {
  static at::Tensor forward(AutogradContext* ctx, const MaskPtr& mask, const at::Tensor& x, at::TensorList parameters,
                            bool transposed) {
    // The parameters are saved so that an in-place change before backward is noticed.
    variable_list saved{x};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["transposed"] = transposed;
    ctx->saved_data["parameters"] = static_cast<int64_t>(parameters.size());
    save_mask(ctx, mask);
    return transposed ? MaskAnswers::apply_transposed(*mask, x) : MaskAnswers::apply(*mask, x);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const MaskPtr mask = saved_mask(ctx);
    check_differentiated_once("Mask::matmul");
    const bool transposed = ctx->saved_data["transposed"].toBool();
    const int64_t parameters = ctx->saved_data["parameters"].toInt();
    const at::Tensor x = ctx->get_saved_variables()[0];
    const at::Tensor grad = grads[0].contiguous();
    const at::NoGradGuard no_grad;
    variable_list result(3 + parameters);  // mask, x, the parameters, transposed
    if (ctx->needs_input_grad(0))
      result[1] = transposed ? MaskAnswers::apply(*mask, grad) : MaskAnswers::apply_transposed(*mask, grad);
    bool wanted = false;
    for (int64_t p = 0; p < parameters; ++p) wanted = wanted || ctx->needs_input_grad(1 + p);
    if (wanted) {
      // ⟨grad, Mᵀx⟩ = ⟨x, M·grad⟩: the transposed product swaps the two.
      const auto gradients = transposed ? MaskAnswers::parameter_gradients(*mask, grad, x)
                                        : MaskAnswers::parameter_gradients(*mask, x, grad);
      for (int64_t p = 0; p < parameters; ++p) result[2 + p] = gradients[p];
    }
    return result;
  }
};

at::Tensor product(const Mask& mask, const at::Tensor& x, bool transposed) {
  const LeadingDims dims("Mask::matmul", "x", x, mask.heads(), mask.size());
  const auto dtype = mask.dtype();
  TORCH_CHECK(is_real(x.scalar_type()) && (!dtype || *dtype == x.scalar_type()), "Mask::matmul: x must be ",
              dtype ? c10::toString(*dtype) : "Float or Double", " as the mask is, got ", describe(x));
  const auto device = mask.device();
  TORCH_CHECK(!device || *device == x.device(), "Mask::matmul: x must be on ", *device, " as the mask is, got ",
              describe(x), "; mask->to(device) moves the mask");
  const auto parameters = mask.parameters();
  return dims.unfold(MatmulFunction::apply(mask.shared_from_this(), dims.fold(x).contiguous(),
                                           at::TensorList(parameters), transposed));
}

}  // namespace

at::Tensor Mask::matmul(const at::Tensor& x) const {
  return product(*this, x, false);
}

at::Tensor Mask::matmul_transposed(const at::Tensor& x) const {
  return product(*this, x, true);
}

std::optional<at::Device> Mask::device() const {
  const auto learnt = parameters();
  return learnt.empty() ? std::nullopt : std::optional(learnt[0].device());
}

at::Tensor Mask::dense() const {
  const at::Tensor eye = at::eye(size(), at::dtype(dtype().value_or(at::kFloat)).device(device().value_or(at::kCPU)));
  return matmul(heads() > 1 ? eye.expand({heads(), size(), size()}) : eye);
}

std::optional<Factors> Mask::factors() const {
  auto matrix = sparse();
  if (!matrix) return std::nullopt;
  std::call_once(identity_once_, [&] { identity_ = identity_pattern(size())->to(matrix->pattern->device()); });
  const SparseMatrix identity{identity_, at::ones({size()}, matrix->values.options().requires_grad(false))};
  return Factors{{std::move(matrix), {}}, {identity, {}}};
}

std::optional<double> Mask::masked_product_work(int64_t, int64_t) const {
  return std::nullopt;
}

at::Tensor Mask::masked_product(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool) const {
  TORCH_CHECK(false, "Mask::masked_product: mask ", name(), " does not implement it");
}

MaskedProductGradients Mask::masked_product_backward(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                                                     const at::Tensor& grad, bool want_parameters) const {
  TORCH_INTERNAL_ASSERT(!want_parameters, "mask ", name(), " has parameters but no masked_product_backward");
  // ∂a = (M ⊙ g cᵀ)b, ∂b = (Mᵀ ⊙ c gᵀ)a, ∂c = (Mᵀ ⊙ b aᵀ)g.
  return {masked_product(grad, c, b, false), masked_product(c, grad, a, true), masked_product(b, a, grad, true)};
}

std::optional<MaskTiles> Mask::tiles() const {
  if (!counts().dense_factors) return std::nullopt;
  const auto product = factors();
  if (!product || !product->left.dense.defined()) return std::nullopt;
  // One side may differ from head to head where the other does not.
  const auto heads_of = [](const at::Tensor& side) { return side.dim() == 3 ? side.size(0) : 1; };
  const int64_t heads = std::max(heads_of(product->left.dense), heads_of(product->right.dense));
  const auto by_heads = [heads](const at::Tensor& side) { return side.expand({heads, -1, -1}); };
  return MaskTiles{
      .kind = TileKind::factors, .values = by_heads(product->left.dense), .right = by_heads(product->right.dense)};
}

at::Tensor unit_columns(const Mask& mask, int64_t first, int64_t count, const at::TensorOptions& like) {
  at::Tensor units = at::zeros({1, mask.heads(), mask.size(), count}, like);
  units.narrow(2, first, count).diagonal(0, 2, 3).fill_(1);
  return units;
}

at::Tensor Mask::rows(int64_t first, int64_t count, const at::TensorOptions& like) const {
  return apply_transposed(unit_columns(*this, first, count, like)).select(0, 0).mT().contiguous();
}

MaskPtr Mask::rebuild(const std::vector<at::Tensor>&) const {
  return parameters().empty() ? shared_from_this() : nullptr;
}

MaskPtr Mask::frozen() const {
  MaskPtr constant = frozen_if_offered(*this);
  TORCH_CHECK(constant, "Mask::frozen: the mask must offer rebuild(), got mask ", name(), ", which does not");
  return constant;
}

std::vector<at::Tensor> Mask::parameter_gradients(const at::Tensor&, const at::Tensor&) const {
  TORCH_INTERNAL_ASSERT(parameters().empty(), "mask ", name(), " has parameters but no parameter_gradients");
  return {};
}

}  // namespace topomask
