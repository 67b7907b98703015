#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/checks.h"
#include "sparse/op_arguments.h"
#include "sparse/spmm.h"

namespace topomask {

using at::Tensor;

PatternTensors check_spmm(const char* op, const Tensor& values, const Tensor& x, const Tensor& offsets,
                          const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns,
                          const Tensor& t_index, bool transposed) {
  PatternTensors pattern(op, offsets, columns, t_offsets, t_columns, t_index);
  check_nodes(op, "x", x, transposed ? pattern.rows() : pattern.cols());
  pattern.check_device(op, "x", x);
  check_values(op, "values", values, pattern.entries(), x);
  return pattern;
}

PatternTensors check_sddmm(const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& columns,
                           int64_t value_heads) {
  PatternTensors pattern("sddmm", offsets, columns);
  check_nodes("sddmm", "a", a, pattern.rows());
  check_nodes("sddmm", "b", b, -1);
  check_like("sddmm", "b", b, "a", a);
  pattern.check_device("sddmm", "a", a);
  TORCH_CHECK(a.size(3) == b.size(3), "sddmm: b must have the width of a, ", a.size(3), ", got ", describe(b));
  TORCH_CHECK(value_heads == 1 || value_heads == a.size(1), "sddmm: value_heads must be 1 or H = ", a.size(1), ", got ",
              value_heads);
  return pattern;
}

namespace {

Tensor spmm_cpu(const Tensor& values, const Tensor& x, const Tensor& offsets, const Tensor& columns,
                const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index) {
  const PatternTensors pattern = check_spmm("spmm", values, x, offsets, columns, t_offsets, t_columns, t_index, false);
  const Tensor y = spmm_plain(values.contiguous(), to_kernel_layout(x), pattern.offsets, pattern.columns);
  return from_kernel_layout(y, x.size(3), x.scalar_type());
}

Tensor spmm_transposed_cpu(const Tensor& values, const Tensor& x, const Tensor& offsets, const Tensor& columns,
                           const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index) {
  const PatternTensors pattern =
      check_spmm("spmm_transposed", values, x, offsets, columns, t_offsets, t_columns, t_index, true);
  const Tensor y =
      spmm_plain(values.contiguous(), to_kernel_layout(x), pattern.t_offsets, pattern.t_columns, pattern.t_index);
  return from_kernel_layout(y, x.size(3), x.scalar_type());
}

Tensor sddmm_cpu(const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& columns, int64_t value_heads) {
  const PatternTensors pattern = check_sddmm(a, b, offsets, columns, value_heads);
  return sddmm_plain(to_kernel_layout(a), to_kernel_layout(b), pattern.offsets, pattern.columns, value_heads);
}

Tensor spmm_meta(const Tensor&, const Tensor& x, const Tensor& offsets, const Tensor&, const Tensor&, const Tensor&,
                 const Tensor&) {
  return at::empty_symint({x.sym_size(0), x.sym_size(1), offsets.sym_size(0) - 1, x.sym_size(3)}, x.options());
}

Tensor spmm_transposed_meta(const Tensor&, const Tensor& x, const Tensor&, const Tensor&, const Tensor& t_offsets,
                            const Tensor&, const Tensor&) {
  return at::empty_symint({x.sym_size(0), x.sym_size(1), t_offsets.sym_size(0) - 1, x.sym_size(3)}, x.options());
}

Tensor sddmm_meta(const Tensor& a, const Tensor&, const Tensor&, const Tensor& columns, c10::SymInt value_heads) {
  return at::empty_symint({std::move(value_heads), columns.sym_size(0)},
                          a.options().dtype(accumulation_type(a.scalar_type())));
}

using SpmmSignature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                             const Tensor&);
using SddmmSignature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, c10::SymInt);

const c10::TypedOperatorHandle<SpmmSignature>& spmm_handle(bool transposed) {
  static const auto plain = c10::Dispatcher::singleton().findSchemaOrThrow("topomask::spmm", "").typed<SpmmSignature>();
  static const auto flipped =
      c10::Dispatcher::singleton().findSchemaOrThrow("topomask::spmm_transposed", "").typed<SpmmSignature>();
  return transposed ? flipped : plain;
}

const c10::TypedOperatorHandle<SddmmSignature>& sddmm_handle() {
  static const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("topomask::sddmm", "").typed<SddmmSignature>();
  return handle;
}

/// y = M·x, or Mᵀ·x: each is the other's gradient in x.
template <bool kTransposed>
class Spmm : public torch::autograd::Function<Spmm<kTransposed>> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& values, const Tensor& x,
                        const Tensor& offsets, const Tensor& columns, const Tensor& t_offsets, const Tensor& t_columns,
                        const Tensor& t_index) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({values, x, offsets, columns, t_offsets, t_columns, t_index});
    return spmm_handle(kTransposed).call(values, x, offsets, columns, t_offsets, t_columns, t_index);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &values = saved[0], &x = saved[1], &grad = grads[0];
    Tensor grad_values, grad_x;
    if (ctx->needs_input_grad(0)) {
      grad_values =
          sddmm_handle().call(kTransposed ? x : grad, kTransposed ? grad : x, saved[2], saved[3], values.sym_size(0));
    }
    if (ctx->needs_input_grad(1)) {
      grad_x = spmm_handle(!kTransposed).call(values, grad, saved[2], saved[3], saved[4], saved[5], saved[6]);
    }
    return {grad_values, grad_x, {}, {}, {}, {}, {}};
  }
};

template <bool kTransposed>
Tensor spmm_autograd(const Tensor& values, const Tensor& x, const Tensor& offsets, const Tensor& columns,
                     const Tensor& t_offsets, const Tensor& t_columns, const Tensor& t_index) {
  return Spmm<kTransposed>::apply(values, x, offsets, columns, t_offsets, t_columns, t_index);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def(
      "spmm(Tensor values, Tensor x, Tensor offsets, Tensor columns, Tensor t_offsets, Tensor t_columns, "
      "Tensor t_index) -> Tensor");
  m.def(
      "spmm_transposed(Tensor values, Tensor x, Tensor offsets, Tensor columns, Tensor t_offsets, Tensor t_columns, "
      "Tensor t_index) -> Tensor");
  m.def("sddmm(Tensor a, Tensor b, Tensor offsets, Tensor columns, SymInt value_heads) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("spmm", spmm_cpu);
  m.impl("spmm_transposed", spmm_transposed_cpu);
  m.impl("sddmm", sddmm_cpu);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("spmm", spmm_meta);
  m.impl("spmm_transposed", spmm_transposed_meta);
  m.impl("sddmm", sddmm_meta);
}

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("spmm", spmm_autograd<false>);
  m.impl("spmm_transposed", spmm_autograd<true>);
  m.impl("sddmm", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace topomask
