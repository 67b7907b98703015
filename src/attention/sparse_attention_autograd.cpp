#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "attention/ops.h"
#include "sparse/row_tiles.h"

// Gradients and autocast of sparse_attention_forward, and the public operators, which are made of it.

namespace topomask {

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

using Forward = Four(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                     const Tensor&, const Tensor&, const Tensor&, bool, double, double, bool,
                     const std::optional<Tensor>&, const std::optional<Tensor>&);
using Backward = Four(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      const Tensor&, const Tensor&, bool, double, double, bool, const std::optional<Tensor>&,
                      const std::optional<Tensor>&);

const auto& forward_handle() {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("topomask::sparse_attention_forward", "").typed<Forward>();
  return handle;
}

class SparseAttention : public torch::autograd::Function<SparseAttention> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& values, const Tensor& offsets, const Tensor& columns,
                               const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index, bool softmax,
                               double scale, double eps, bool keep_scores, const std::optional<Tensor>& tiles,
                               const std::optional<Tensor>& t_tiles) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, row_max, denominator, scores] =
        forward_handle().call(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, softmax, scale, eps,
                              keep_scores, tiles, t_tiles);
    ctx->save_for_backward({q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, out, row_max, denominator,
                            scores, tiles.value_or(Tensor()), t_tiles.value_or(Tensor())});
    ctx->mark_non_differentiable({row_max, denominator, scores});
    ctx->set_materialize_grads(false);  // no zeros in the shape of the scores
    ctx->saved_data["softmax"] = softmax;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["eps"] = eps;
    return {out, row_max, denominator, scores};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto handle =
        c10::Dispatcher::singleton().findSchemaOrThrow("topomask::sparse_attention_backward", "").typed<Backward>();
    variable_list result(15);
    if (!grads[0].defined()) return result;
    const auto s = ctx->get_saved_variables();
    const auto optional = [](const Tensor& tensor) {
      return tensor.defined() ? std::optional<Tensor>(tensor) : std::nullopt;
    };
    const bool want_values = ctx->needs_input_grad(3);
    const auto [grad_q, grad_k, grad_v, grad_values] =
        handle.call(grads[0], s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12],
                    ctx->saved_data["softmax"].toBool(), ctx->saved_data["scale"].toDouble(),
                    ctx->saved_data["eps"].toDouble(), want_values, optional(s[13]), optional(s[14]));
    result[0] = grad_q;
    result[1] = grad_k;
    result[2] = grad_v;
    if (want_values) result[3] = grad_values;
    return result;
  }
};

Four forward_autograd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& offsets,
                      const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index,
                      bool softmax, double scale, double eps, bool keep_scores, const std::optional<Tensor>& tiles,
                      const std::optional<Tensor>& t_tiles) {
  const auto out = SparseAttention::apply(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, softmax,
                                          scale, eps, keep_scores, tiles, t_tiles);
  return {out[0], out[1], out[2], out[3]};
}

/// q, k and v take the autocast dtype (float64 excepted); values keep the accumulation type.
template <c10::DispatchKey kKey, c10::DeviceType kDevice>
Four forward_autocast(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& offsets,
                      const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index,
                      bool softmax, double scale, double eps, bool keep_scores, const std::optional<Tensor>& tiles,
                      const std::optional<Tensor>& t_tiles) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(kKey);
  const auto cast = [](const Tensor& nodes) {
    return at::autocast::cached_cast(at::autocast::get_autocast_dtype(kDevice), nodes, kDevice);
  };
  return forward_handle().call(cast(q), cast(k), cast(v), at::autocast::cached_cast(at::kFloat, values, kDevice),
                               offsets, columns, t_offsets, t_columns, t_index, softmax, scale, eps, keep_scores, tiles,
                               t_tiles);
}

/// The backward on the CPU saves a pass over the entries with the scores at hand. They are kept where they take at most
/// half the memory of what it needs anyway, one scalar per entry beside m + d per row.
bool worth_keeping_scores(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                          const Tensor& columns) {
  const bool differentiated = at::GradMode::is_enabled() &&
                              (q.requires_grad() || k.requires_grad() || v.requires_grad() || values.requires_grad());
  return differentiated && q.is_cpu() && columns.dim() == 1 && q.dim() == 4 && v.dim() == 4 &&
         columns.sym_size(0) * 2 <= q.sym_size(2) * (q.sym_size(3) + v.sym_size(3));
}

Two attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& offsets,
              const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index,
              double eps, const std::optional<Tensor>& tiles, const std::optional<Tensor>& t_tiles) {
  const auto result = forward_handle().call(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, false, 1,
                                            eps, worth_keeping_scores(q, k, v, values, columns), tiles, t_tiles);
  return {std::get<0>(result), std::get<2>(result)};
}

Three softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& offsets,
                        const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index,
                        double scale, double eps, const std::optional<Tensor>& tiles,
                        const std::optional<Tensor>& t_tiles) {
  const auto result = forward_handle().call(q, k, v, values, offsets, columns, t_offsets, t_columns, t_index, true,
                                            scale, eps, worth_keeping_scores(q, k, v, values, columns), tiles, t_tiles);
  return {std::get<0>(result), std::get<1>(result), std::get<2>(result)};
}

/// The tiles of a pattern where the kernels ask for them.
std::pair<std::optional<Tensor>, std::optional<Tensor>> tiles(const SparsePattern& pattern, const Tensor& q,
                                                              const Tensor& v) {
  const bool asked = q.is_cuda() && q.scalar_type() == at::kBFloat16 &&
                     std::max(q.size(-1), v.size(-1)) <= RowTiles::kMaxWidth && pattern.device() == q.device();
  if (!asked) return {};
  return {pattern.tiles().rows, pattern.tiles().columns};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "sparse_attention(Tensor q, Tensor k, Tensor v, Tensor values, Tensor offsets, Tensor columns, Tensor t_offsets, "
      "Tensor t_columns, Tensor t_index, float eps, Tensor? tiles=None, Tensor? t_tiles=None) "
      "-> (Tensor out, Tensor denominator)");
  m.def(
      "sparse_softmax_attention(Tensor q, Tensor k, Tensor v, Tensor values, Tensor offsets, Tensor columns, "
      "Tensor t_offsets, Tensor t_columns, Tensor t_index, float scale, float eps, Tensor? tiles=None, "
      "Tensor? t_tiles=None) "
      "-> (Tensor out, Tensor row_max, Tensor denominator)");
}

TORCH_LIBRARY_IMPL(topomask, CompositeImplicitAutograd, m) {
  m.impl("sparse_attention", attention);
  m.impl("sparse_softmax_attention", softmax_attention);
}

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("sparse_attention_forward", forward_autograd);
  m.impl("sparse_attention_backward", torch::autograd::autogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(topomask, AutocastCPU, m) {
  m.impl("sparse_attention_forward", forward_autocast<c10::DispatchKey::AutocastCPU, at::kCPU>);
}

TORCH_LIBRARY_IMPL(topomask, AutocastCUDA, m) {
  m.impl("sparse_attention_forward", forward_autocast<c10::DispatchKey::AutocastCUDA, at::kCUDA>);
}

Two sparse_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SparseMatrix& matrix, double eps) {
  const SparsePattern& pattern = *matrix.pattern;
  const SparsePattern::Transposed& t = pattern.transposed();
  const auto [rows, columns] = tiles(pattern, q, v);
  return attention(q, k, v, matrix.values.reshape({matrix.heads(), pattern.entries()}), pattern.offsets(),
                   pattern.columns(), t.offsets, t.columns, t.index, eps, rows, columns);
}

Three sparse_softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SparseMatrix& matrix,
                               double scale, double eps) {
  const SparsePattern& pattern = *matrix.pattern;
  const SparsePattern::Transposed& t = pattern.transposed();
  const auto [rows, columns] = tiles(pattern, q, v);
  return softmax_attention(q, k, v, matrix.values.reshape({matrix.heads(), pattern.entries()}), pattern.offsets(),
                           pattern.columns(), t.offsets, t.columns, t.index, scale, eps, rows, columns);
}

}  // namespace topomask
