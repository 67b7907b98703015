#include "ops/spmm/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/call.h"
#include "ops/deprecated/op.h"

namespace topomask::ops::spmm {

using at::Tensor;
using at::TensorList;

Tensor multiply(const Tensor& values, const Tensor& x, TensorList pattern) {
  return call<"spmm", Tensor(const Tensor&, const Tensor&, TensorList)>(values, x, pattern);
}

Tensor multiply_transposed(const Tensor& values, const Tensor& x, TensorList pattern) {
  return call<"spmm_transposed", Tensor(const Tensor&, const Tensor&, TensorList)>(values, x, pattern);
}

Tensor sddmm(const Tensor& a, const Tensor& b, TensorList pattern, c10::SymInt value_heads) {
  return call<"sddmm", Tensor(const Tensor&, const Tensor&, TensorList, c10::SymInt)>(a, b, pattern,
                                                                                      std::move(value_heads));
}

PatternTensors check(const char* op, const Tensor& values, const Tensor& x, TensorList pattern, bool transposed) {
  PatternTensors checked(op, "pattern", pattern, PatternTensors::kBoth);
  check_nodes(op, "x", x, transposed ? checked.rows() : checked.cols());
  checked.check_device(op, "x", x);
  check_values(op, "values", values, checked.entries(), x);
  return checked;
}

PatternTensors check_sddmm(const Tensor& a, const Tensor& b, TensorList pattern, int64_t value_heads) {
  PatternTensors checked("sddmm", "pattern", pattern, PatternTensors::kRows);
  check_nodes("sddmm", "a", a, checked.rows());
  check_nodes("sddmm", "b", b, -1);
  check_like("sddmm", "b", b, "a", a);
  checked.check_device("sddmm", "a", a);
  TORCH_CHECK(a.size(3) == b.size(3), "sddmm: b must have the width of a, ", a.size(3), ", got ", describe(b));
  TORCH_CHECK(value_heads == 1 || value_heads == a.size(1), "sddmm: value_heads must be 1 or H = ", a.size(1), ", got ",
              value_heads);
  return checked;
}

namespace {

/// As many rows as `offsets` have.
Tensor rows_like(const Tensor& x, const Tensor& offsets) {
  return at::empty_symint({x.sym_size(0), x.sym_size(1), offsets.sym_size(0) - 1, x.sym_size(3)}, x.options());
}

Tensor multiply_meta(const Tensor&, const Tensor& x, TensorList pattern) {
  return rows_like(x, pattern[0]);
}

Tensor multiply_transposed_meta(const Tensor&, const Tensor& x, TensorList pattern) {
  return rows_like(x, pattern[2]);
}

Tensor sddmm_meta(const Tensor& a, const Tensor&, TensorList pattern, c10::SymInt value_heads) {
  return at::empty_symint({std::move(value_heads), pattern[1].sym_size(0)},
                          a.options().dtype(accumulation_type(a.scalar_type())));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("spmm(Tensor values, Tensor x, Tensor[] pattern) -> Tensor");
  m.def("spmm_transposed(Tensor values, Tensor x, Tensor[] pattern) -> Tensor");
  m.def("sddmm(Tensor a, Tensor b, Tensor[] pattern, SymInt value_heads) -> Tensor");
  deprecated::define_spmm(m);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("spmm", multiply_meta);
  m.impl("spmm_transposed", multiply_transposed_meta);
  m.impl("sddmm", sddmm_meta);
}

}  // namespace topomask::ops::spmm
