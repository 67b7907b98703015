#include "masks/grf/product_arguments.h"

#include <ATen/ATen.h>

#include "core/checks.h"
#include "sparse/op_arguments.h"

namespace topomask {
namespace {

using at::Tensor;
using at::TensorList;

PatternTensors checked_pattern(const char* op, const char* name, TensorList p) {
  TORCH_CHECK(p.size() == kPatternTensors, op, ": ", name, " must be a list of ", kPatternTensors, " tensors, got ",
              p.size());
  return {op, p[0], p[1], p[2], p[3], p[4]};
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

ProductTensors check_product_backward(const Tensor& grad, const Tensor& b, TensorList a_pattern, TensorList b_pattern,
                                      TensorList out, bool transposed) {
  constexpr const char* kOp = "sparse_product_backward";
  const auto pa = checked_pattern(kOp, "a_pattern", a_pattern), pb = checked_pattern(kOp, "b_pattern", b_pattern);
  const auto po = checked_pattern(kOp, "out", out);
  check_entry_values(kOp, "b", b, b, pb);
  check_entry_values(kOp, "grad", grad, b, po);
  check_shapes(kOp, pa, pb, po, transposed);
  return {grad, b, rows_of(pa), columns_of(pb), transposed ? columns_of(po) : rows_of(po), pb.rows()};
}

}  // namespace topomask
