#include "ops/sparse_product/op.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "core/checks.h"
#include "ops/call.h"
#include "ops/pattern.h"

namespace topomask::ops::sparse_product {

using at::Tensor;
using at::TensorList;

namespace {

PatternTensors checked_pattern(const char* op, const char* name, TensorList p) {
  return {op, name, p, PatternTensors::kBoth};
}

CsrTensors rows_of(const PatternTensors& p) {
  return {p.offsets, p.columns};
}

CsrTensors columns_of(const PatternTensors& p) {
  return {p.t_offsets, p.t_columns, p.t_index};
}

void check_entry_values(const char* op, const char* name, const Tensor& values, const Tensor& like,
                        const PatternTensors& pattern) {
  const at::Device device = pattern.offsets.device();
  TORCH_CHECK(values.dim() == 2 && is_real(values.scalar_type()) && values.device() == device, op, ": ", name,
              " must be Float or Double [H, entries] on ", device, ", got ", describe(values));
  TORCH_CHECK(values.scalar_type() == like.scalar_type() && values.size(0) == like.size(0) &&
                  values.size(1) == pattern.entries(),
              op, ": ", name, " must be ", like.scalar_type(), " [H = ", like.size(0),
              ", entries = ", pattern.entries(), "], got ", describe(values));
}

void check_shapes(const char* op, const PatternTensors& a, const PatternTensors& b, const PatternTensors& out,
                  bool transposed) {
  TORCH_CHECK(a.cols() == b.cols(), op, ": b_pattern must have the columns of a_pattern, ", a.cols(), ", got ",
              b.cols());
  const int64_t rows = transposed ? b.rows() : a.rows(), cols = transposed ? a.rows() : b.rows();
  TORCH_CHECK(out.rows() == rows && out.cols() == cols, op, ": out must be a pattern [", rows, ", ", cols, "], got [",
              out.rows(), ", ", out.cols(), "]");
  TORCH_CHECK(b.offsets.device() == a.offsets.device() && out.offsets.device() == a.offsets.device(), op,
              ": b_pattern and out must be on ", a.offsets.device(), " as a_pattern is, got ", b.offsets.device(),
              " and ", out.offsets.device());
}

}  // namespace

ProductTensors check_product(const Tensor& a, const Tensor& b, TensorList a_pattern, TensorList b_pattern,
                             TensorList out) {
  constexpr const char* kOp = "sparse_product";
  const auto pa = checked_pattern(kOp, "a_pattern", a_pattern), pb = checked_pattern(kOp, "b_pattern", b_pattern);
  const auto po = checked_pattern(kOp, "out", out);
  check_entry_values(kOp, "a", a, a, pa);
  check_entry_values(kOp, "b", b, a, pb);
  check_shapes(kOp, pa, pb, po, false);
  return {a, b, rows_of(pa), columns_of(pb), rows_of(po), pb.rows()};
}

ProductTensors check_gram(const Tensor& a, TensorList a_pattern, TensorList out) {
  constexpr const char* kOp = "sparse_gram";
  const auto pa = checked_pattern(kOp, "a_pattern", a_pattern), po = checked_pattern(kOp, "out", out);
  check_entry_values(kOp, "a", a, a, pa);
  check_shapes(kOp, pa, pa, po, false);
  return {a, a, rows_of(pa), columns_of(pa), rows_of(po), pa.rows()};
}

ProductTensors check_backward(const Tensor& grad, const Tensor& b, TensorList a_pattern, TensorList b_pattern,
                              TensorList out, bool transposed) {
  constexpr const char* kOp = "sparse_product_backward";
  const auto pa = checked_pattern(kOp, "a_pattern", a_pattern), pb = checked_pattern(kOp, "b_pattern", b_pattern);
  const auto po = checked_pattern(kOp, "out", out);
  check_entry_values(kOp, "b", b, b, pb);
  check_entry_values(kOp, "grad", grad, b, po);
  check_shapes(kOp, pa, pb, po, transposed);
  return {grad, b, rows_of(pa), columns_of(pb), transposed ? columns_of(po) : rows_of(po), pb.rows()};
}

Tensor multiply(const Tensor& a, const Tensor& b, TensorList a_pattern, TensorList b_pattern, TensorList out) {
  using Signature = Tensor(const Tensor&, const Tensor&, TensorList, TensorList, TensorList);
  return call<"sparse_product", Signature>(a, b, a_pattern, b_pattern, out);
}

Tensor gram(const Tensor& a, TensorList a_pattern, TensorList out) {
  return call<"sparse_gram", Tensor(const Tensor&, TensorList, TensorList)>(a, a_pattern, out);
}

Tensor backward(const Tensor& grad, const Tensor& b, TensorList a_pattern, TensorList b_pattern, TensorList out,
                bool transposed) {
  using Signature = Tensor(const Tensor&, const Tensor&, TensorList, TensorList, TensorList, bool);
  return call<"sparse_product_backward", Signature>(grad, b, a_pattern, b_pattern, out, transposed);
}

namespace {

Tensor entries_of(const Tensor& like, TensorList pattern) {
  return at::empty_symint({like.sym_size(0), pattern[1].sym_size(0)}, like.options());
}

Tensor multiply_meta(const Tensor& a, const Tensor&, TensorList, TensorList, TensorList out) {
  return entries_of(a, out);
}

Tensor gram_meta(const Tensor& a, TensorList, TensorList out) {
  return entries_of(a, out);
}

Tensor backward_meta(const Tensor&, const Tensor& b, TensorList a_pattern, TensorList, TensorList, bool) {
  return entries_of(b, a_pattern);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("sparse_product(Tensor a, Tensor b, Tensor[] a_pattern, Tensor[] b_pattern, Tensor[] out) -> Tensor");
  m.def("sparse_gram(Tensor a, Tensor[] a_pattern, Tensor[] out) -> Tensor");
  m.def(
      "sparse_product_backward(Tensor grad, Tensor b, Tensor[] a_pattern, Tensor[] b_pattern, Tensor[] out, "
      "bool transposed) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("sparse_product", multiply_meta);
  m.impl("sparse_gram", gram_meta);
  m.impl("sparse_product_backward", backward_meta);
}

}  // namespace topomask::ops::sparse_product
