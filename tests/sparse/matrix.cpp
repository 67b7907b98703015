#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "ops/pattern.h"
#include "support/sparse_reference.h"

namespace topomask {
namespace {

using namespace topomask::testing;
using at::Tensor;

Tensor dense_of(const PatternPtr& pattern, const Tensor& values) {
  return values.dim() == 1 ? dense_matrix(pattern, values.unsqueeze(0))[0] : dense_matrix(pattern, values);
}

TEST(SparseMatrix, MultipliesLikeItsDenseForm) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const double tolerance = dtype == at::kDouble ? 1e-13 : dtype == at::kFloat ? 1e-5 : 2e-2;
    const at::ScalarType values_type = dtype == at::kDouble ? at::kDouble : at::kFloat;
    for (const auto& [rows, cols] :
         std::vector<std::pair<int64_t, int64_t>>{{5, 5}, {1, 1}, {2, 3}, {63, 97}, {0, 0}, {3, 0}}) {
      for (const int64_t width : {1, 3, 16, 17, 64, 65, 200}) {
        for (const int64_t heads : {0, 3}) {  // 0: values without a head dimension
          SCOPED_TRACE(c10::str(dtype, " ", rows, "x", cols, " width ", width, " heads ", heads));
          const PatternPtr pattern = random_pattern(rows, cols, 0.3, 7);
          const Tensor values =
              (heads ? random_tensor({heads, pattern->entries()}, 1) : random_tensor({pattern->entries()}, 1))
                  .to(values_type);
          const Tensor x = random_tensor({2, 3, cols, width}, 2).to(dtype),
                       y = random_tensor({2, 3, rows, width}, 3).to(dtype);
          auto mine = leaves({values}, values_type), exact = leaves({values, x, y}, at::kDouble);
          for (const Tensor& t : leaves({x, y}, dtype)) mine.push_back(t);
          const SparseMatrix matrix{pattern, mine[0]};
          const Tensor dense = dense_of(pattern, exact[0]);
          expect_close(
              with_gradients({matmul(matrix, mine[1]), matmul_transposed(matrix, mine[2])}, mine),
              with_gradients({at::matmul(dense, exact[1]), at::matmul(dense.transpose(-1, -2), exact[2])}, exact),
              tolerance);
        }
      }
    }
  }
}

TEST(SparseMatrix, TakesAnyLeadingDimensionsAndStrides) {
  const PatternPtr pattern = random_pattern(5, 7, 0.4, 1);
  const SparseMatrix matrix{pattern, random_tensor({pattern->entries()}, 2)};
  const Tensor dense = dense_of(pattern, matrix.values);
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{7, 4}, {2, 7, 4}, {2, 3, 2, 7, 4}, {0, 7, 4}, {2, 7, 0}}) {
    const Tensor x = random_tensor(shape, 3);
    EXPECT_TRUE(at::allclose(matmul(matrix, x), at::matmul(dense, x)));
  }
  const Tensor turned = random_tensor({16, 7}, 3).t();
  EXPECT_TRUE(at::allclose(matmul(matrix, turned), at::matmul(dense, turned)));
  const Tensor expanded = random_tensor({7, 1}, 3).expand({7, 16});
  EXPECT_TRUE(at::allclose(matmul(matrix, expanded), at::matmul(dense, expanded)));
}

TEST(SparseMatrix, DenseAndTransposedAreDifferentiable) {
  for (const bool heads : {false, true}) {
    const PatternPtr pattern = random_pattern(5, 7, 0.4, 1);
    const Tensor values = heads ? random_tensor({2, pattern->entries()}, 2) : random_tensor({pattern->entries()}, 2);
    const auto mine = leaves({values, values}, at::kDouble), exact = leaves({values, values}, at::kDouble);
    const SparseMatrix transposed = SparseMatrix{pattern, mine[1]}.transposed();
    EXPECT_EQ(transposed.pattern->rows(), 7);
    expect_close(with_gradients({SparseMatrix{pattern, mine[0]}.dense(), transposed.dense()}, mine),
                 with_gradients({dense_of(pattern, exact[0]), dense_of(pattern, exact[1]).transpose(-1, -2)}, exact),
                 0);
  }
}

TEST(SparseMatrix, DoesNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  const PatternPtr pattern = random_pattern(1009, 977, 0.1, 3);
  std::vector<std::vector<Tensor>> results;
  for (const int count : {1, 2, 7}) {
    at::set_num_threads(count);
    const auto x = leaves({random_tensor({pattern->entries()}, 1), random_tensor({2, 977, 48}, 2)}, at::kFloat);
    results.push_back(with_gradients({matmul({pattern, x[0]}, x[1])}, x));
  }
  at::set_num_threads(threads);
  for (size_t n = 0; n < results[0].size(); ++n) {
    EXPECT_TRUE(at::equal(results[0][n], results[1][n]) && at::equal(results[0][n], results[2][n])) << "tensor " << n;
  }
}

TEST(SparseMatrix, RefusesWhatItCannotMultiply) {
  const PatternPtr pattern = random_pattern(5, 7, 0.4, 1);
  const SparseMatrix matrix{pattern, at::ones({pattern->entries()})};
  const SparseMatrix heads{pattern, at::ones({2, pattern->entries()})};
  expect_error([&] { matmul(matrix, at::ones({5, 3})); }, "matmul: x must be [..., 7, C], got Float[5, 3] on cpu");
  expect_error([&] { matmul_transposed(matrix, at::ones({7, 3})); }, "matmul_transposed: x must be [..., 5, C], got");
  expect_error(
      [&] {
        matmul(heads, at::ones({3, 7, 3}));
      },
      "matmul: x must be [..., H = 2, 7, C] for a matrix with 2 heads, got Float[3, 7, 3]");
  expect_error(
      [&] {
        matmul({nullptr, at::ones({3})}, at::ones({7, 3}));
      },
      "matmul: matrix must have a pattern, got none");
  expect_error(
      [&] {
        matmul({pattern, at::ones({2})}, at::ones({7, 3}));
      },
      "matmul: values must be float32 or float64 [entries = ");
  expect_error(
      [&] {
        SparseMatrix{pattern, at::ones({2})}.dense();
      },
      "SparseMatrix::dense: values must be float32 or float64");
  expect_error([&] { SparseMatrix{pattern, at::ones({2})}.transposed(); }, "SparseMatrix::transposed: values must be");
  expect_error(
      [&] {
        matmul(matrix, at::ones({7, 3}, at::kHalf));
      },
      "spmm: x must be float64, float32 or bfloat16 on cpu, got Half");
  expect_error(
      [&] {
        matmul(matrix, at::ones({7, 3}, at::kDouble));
      },
      "spmm: values must be Double on cpu for nodes in Double, got Float");
}

TEST(PatternTensors, RefusesArraysThatDoNotFitTogether) {
  const PatternPtr pattern = random_pattern(5, 7, 0.4, 1);
  const SparsePattern::Transposed& t = pattern->transposed();
  const auto make = [&](const Tensor& offsets, const Tensor& columns, const Tensor& t_offsets,
                        const Tensor& t_columns) {
    return [=] {
      const std::vector<Tensor> list{offsets, columns, t_offsets, t_columns, t.index};
      ops::PatternTensors("op", "pattern", list, ops::PatternTensors::kBoth);
    };
  };
  expect_error(make(pattern->offsets().to(at::kInt), pattern->columns(), t.offsets, t.columns),
               "op: offsets of pattern must be a vector of Long on cpu, got Int[6] on cpu");
  expect_error(make(pattern->offsets(), pattern->columns().to(at::kLong), t.offsets, t.columns),
               "op: columns of pattern must be a vector of Int on cpu, got Long");
  expect_error(make(pattern->offsets().slice(0, 0, 0), pattern->columns(), t.offsets, t.columns),
               "op: offsets of pattern must have rows + 1 elements, got Long[0] on cpu");
  expect_error(make(pattern->offsets().slice(0, 0, 5), pattern->columns(), t.offsets, t.columns),
               "(the number of entries), got 0 to ");
  expect_error(make(pattern->offsets(), pattern->columns(), t.offsets, t.columns.slice(0, 0, 2)),
               "op: t_columns and t_index of pattern must have as many elements as columns, ");
  const std::vector<Tensor> rows{pattern->offsets(), pattern->columns()};
  expect_error([&] { ops::PatternTensors("op", "left", rows, ops::PatternTensors::kBoth); },
               "op: left must be a list of 5 tensors or more");
}

}  // namespace
}  // namespace topomask
