#include <ATen/ATen.h>

#include "core/checks.h"
#include "core/move.h"
#include "ops/spmm/op.h"
#include "topomask/sparse.h"

namespace topomask {

namespace {

void check_matrix(const char* op, const SparseMatrix& matrix) {
  TORCH_CHECK(matrix.pattern != nullptr, op, ": matrix must have a pattern, got none");
  const at::Tensor& values = matrix.values;
  TORCH_CHECK(values.defined() && is_real(values.scalar_type()) && (values.dim() == 1 || values.dim() == 2) &&
                  values.size(-1) == matrix.pattern->entries(),
              op, ": values must be float32 or float64 [entries = ", matrix.pattern->entries(),
              "] or [H, entries], got ", describe(values));
}

/// x [..., N, C] as [B, H, N, C] through the operator and back.
at::Tensor product(const SparseMatrix& matrix, const at::Tensor& x, bool transposed) {
  const char* op = transposed ? "matmul_transposed" : "matmul";
  check_matrix(op, matrix);
  const SparsePattern& pattern = *matrix.pattern;
  const int64_t nodes = transposed ? pattern.rows() : pattern.cols();
  const int64_t heads = matrix.heads();
  TORCH_CHECK(x.defined() && x.dim() >= 2 && x.size(-2) == nodes, op, ": x must be [..., ", nodes, ", C], got ",
              describe(x));
  TORCH_CHECK(heads == 1 || (x.dim() >= 3 && x.size(-3) == heads), op, ": x must be [..., H = ", heads, ", ", nodes,
              ", C] for a matrix with ", heads, " heads, got ", describe(x));
  int64_t slices = 1;
  for (int64_t axis = 0; axis < x.dim() - 2; ++axis) slices *= x.size(axis);
  std::vector<int64_t> shape = x.sizes().vec();
  shape[shape.size() - 2] = transposed ? pattern.cols() : pattern.rows();

  const at::Tensor nodes_by_head = x.reshape({heads == 0 ? 0 : slices / heads, heads, nodes, x.size(-1)});
  const at::Tensor y = transposed
                           ? ops::spmm::multiply_transposed(matrix.values_by_head(), nodes_by_head, pattern.tensors())
                           : ops::spmm::multiply(matrix.values_by_head(), nodes_by_head, pattern.tensors());
  return y.reshape(shape);
}

}  // namespace

SparseMatrix SparseMatrix::to(const at::TensorOptions& target) const {
  return {moved(pattern, target), values.to(target)};
}

at::Tensor SparseMatrix::values_by_head() const {
  return values.reshape({heads(), pattern->entries()});
}

SparseMatrix SparseMatrix::transposed() const {
  check_matrix("SparseMatrix::transposed", *this);
  const SparsePattern::Transposed& t = pattern->transposed();
  return {std::make_shared<SparsePattern>(pattern->cols(), pattern->rows(), t.offsets, t.columns),
          values.index_select(-1, t.index)};
}

at::Tensor SparseMatrix::dense() const {
  check_matrix("SparseMatrix::dense", *this);
  const int64_t rows = pattern->rows(), cols = pattern->cols();
  const at::Tensor row = at::repeat_interleave(at::arange(rows, pattern->offsets().options()),
                                               pattern->offsets().diff(), 0, pattern->entries());
  const at::Tensor place = row * cols + pattern->columns();
  const std::vector<int64_t> leading = values.sizes().slice(0, values.dim() - 1).vec();
  std::vector<int64_t> flat = leading, shape = leading;
  flat.push_back(rows * cols);
  shape.insert(shape.end(), {rows, cols});
  return at::zeros(flat, values.options()).index_copy(-1, place, values).reshape(shape);
}

at::Tensor matmul(const SparseMatrix& matrix, const at::Tensor& x) {
  return product(matrix, x, false);
}

at::Tensor matmul_transposed(const SparseMatrix& matrix, const at::Tensor& x) {
  return product(matrix, x, true);
}

}  // namespace topomask
