#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "attention/columns_kernel.h"
#include "attention/route_slices.h"
#include "attention/routes.h"
#include "core/checks.h"
#include "core/recycled.h"
#include "core/simd.h"
#include "masks/interface/mask_answers.h"
#include "masks/interface/mask_holder.h"
#include "ops/column_tensors.h"

namespace topomask {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Features first … first+count−1 of a contiguous tensor [B, H, N, m].
struct Slice {
  const at::Tensor& tensor;
  int64_t first;
  int64_t count;
  at::Tensor features() const { return tensor.narrow(-1, first, count); }
};

/// Calls kernel(args, begin, end) over ranges of all nodes: `a` is a slice of features, b [B, H, N, c], x
/// [B, H, N, count·c], plain and contiguous.
template <class Kernel>
void for_nodes(const Slice& a, const at::Tensor& b, const at::Tensor& x, const Kernel& kernel) {
  const int64_t nodes = b.size(0) * b.size(1) * b.size(2), work = a.count * b.size(-1);
  AT_DISPATCH_FLOATING_TYPES(b.scalar_type(), "columns", [&] {
    const ColumnsArgs<scalar_t> args{a.tensor.data_ptr<scalar_t>() + a.first,
                                     a.tensor.size(-1),
                                     a.count,
                                     b.data_ptr<scalar_t>(),
                                     b.size(-1),
                                     x.data_ptr<scalar_t>()};
    at::parallel_for(0, nodes, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, work)),
                     [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
  });
}

/// Per node, features ⊗ values as columns: [B, H, N, count·c].
at::Tensor outer_columns(const Slice& a, const at::Tensor& b) {
  if (!b.is_cpu()) return ops::column_products(a.features(), b);
  const at::Tensor x = recycled_empty({b.size(0), b.size(1), b.size(2), a.count * b.size(-1)}, b.options());
  for_nodes(a, b, x, [](const auto& args, int64_t begin, int64_t end) { outer_columns_rows(args, begin, end); });
  return x;
}

/// b += Σ_s a_s x[s, :], per node.
void add_contracted_features(const Slice& a, const at::Tensor& x, at::Tensor b) {
  if (!b.is_cpu()) {
    b += ops::sum_over_features(x, a.features());
    return;
  }
  for_nodes(a, b, x.contiguous(),
            [](const auto& args, int64_t begin, int64_t end) { contract_features_rows(args, begin, end); });
}

/// a_s = x[s, :] · b, per node.
void contract_values(const at::Tensor& x, const at::Tensor& b, const Slice& a) {
  if (!b.is_cpu()) {
    a.features().copy_(ops::sum_over_values(x, b));
    return;
  }
  for_nodes(a, b, x.contiguous(),
            [](const auto& args, int64_t begin, int64_t end) { contract_values_rows(args, begin, end); });
}

/// (M ⊙ q kᵀ) v by the lemma: M applied to the columns k_s ⊗ v, a slice of features at a time, forward and backward, so
/// that memory stays O(N·d). The backward pass computes M·X of each slice again.
struct StreamedProduct : torch::autograd::Function<StreamedProduct> {
  static at::Tensor forward(AutogradContext* ctx, const MaskPtr& mask, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, at::TensorList parameters) {
    variable_list saved{q, k, v};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    ctx->save_for_backward(std::move(saved));
    save_mask(ctx, mask);
    at::Tensor out = at::zeros_like(v);
    const int64_t per_slice = slice_features(v.numel() * v.element_size(), v.is_cuda());
    for (int64_t s = 0; s < q.size(-1); s += per_slice) {
      const int64_t count = std::min(per_slice, q.size(-1) - s);
      add_contracted_features({q, s, count}, MaskAnswers::apply(*mask, outer_columns({k, s, count}, v)), out);
    }
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    check_differentiated_once("attention");
    const auto saved = ctx->get_saved_variables();
    const MaskPtr mask = saved_mask(ctx);
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const at::Tensor g = grads[0].contiguous();
    const auto parameters = static_cast<int64_t>(saved.size()) - 3;
    bool wants_parameters = false;
    for (int64_t p = 0; p < parameters; ++p) wants_parameters = wants_parameters || ctx->needs_input_grad(3 + p);

    at::Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::zeros_like(v);
    variable_list result(4 + parameters);
    const int64_t per_slice = slice_features(v.numel() * v.element_size(), v.is_cuda());
    for (int64_t s = 0; s < q.size(-1); s += per_slice) {
      const int64_t count = std::min(per_slice, q.size(-1) - s);
      const at::Tensor x = outer_columns({k, s, count}, v), dy = outer_columns({q, s, count}, g);
      contract_values(MaskAnswers::apply(*mask, x), g, {dq, s, count});
      const at::Tensor dx = MaskAnswers::apply_transposed(*mask, dy);
      contract_values(dx, v, {dk, s, count});
      add_contracted_features({k, s, count}, dx, dv);
      if (!wants_parameters) continue;
      const auto gradients = MaskAnswers::parameter_gradients(*mask, x, dy);
      for (int64_t p = 0; p < parameters; ++p) {
        at::Tensor& total = result[4 + p];
        total = total.defined() ? total + gradients[p] : gradients[p];
      }
    }
    result[1] = dq;
    result[2] = dk;
    result[3] = dv;
    return result;
  }
};

/// The same through the mask's own product.
struct OwnProduct : torch::autograd::Function<OwnProduct> {
  static at::Tensor forward(AutogradContext* ctx, const MaskPtr& mask, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, at::TensorList parameters) {
    variable_list saved{q, k, v};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    ctx->save_for_backward(std::move(saved));
    save_mask(ctx, mask);
    return mask->masked_product(q, k, v, false);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    check_differentiated_once("attention");
    const auto saved = ctx->get_saved_variables();
    bool wants_parameters = false;
    for (size_t i = 3; i < saved.size(); ++i) wants_parameters = wants_parameters || ctx->needs_input_grad(i);
    auto gradients =
        saved_mask(ctx)->masked_product_backward(saved[0], saved[1], saved[2], grads[0].contiguous(), wants_parameters);
    variable_list result{at::Tensor(), gradients.a, gradients.b, gradients.c};
    result.insert(result.end(), gradients.parameters.begin(), gradients.parameters.end());
    result.resize(saved.size() + 1);
    return result;
  }
};

}  // namespace

int64_t slice_features(int64_t value_bytes, bool on_cuda) {
  // On the CPU small enough that the allocator hands out the same memory again instead of fresh pages; on a GPU large
  // enough that starting kernels does not count.
  const int64_t slice_bytes = (on_cuda ? int64_t{512} : int64_t{20}) << 20;
  int64_t count = kWidthUnit;
  while (count > 1 && count * value_bytes > slice_bytes) count /= 2;
  return count;
}

at::Tensor operator_route(const Problem& problem) {
  const at::ScalarType type = accumulation_type(problem.q.scalar_type());
  const at::Tensor q = problem.q.to(type).contiguous(), k = problem.k.to(type).contiguous();
  // Padded so that a full slice has a multiple of 16 columns, which the sparse kernels need.
  const int64_t value_bytes = problem.v.numel() * static_cast<int64_t>(c10::elementSize(type));
  const at::Tensor v =
      with_ones_column(problem.v.to(type), kWidthUnit / slice_features(value_bytes, problem.v.is_cuda()));
  const auto parameters = problem.mask->parameters();
  const bool own = problem.mask->masked_product_work(q.size(-1), v.size(-1)).has_value();
  const at::Tensor product = own ? OwnProduct::apply(problem.mask, q, k, v, at::TensorList(parameters))
                                 : StreamedProduct::apply(problem.mask, q, k, v, at::TensorList(parameters));
  return normalise_joint(product, problem);
}

}  // namespace topomask
