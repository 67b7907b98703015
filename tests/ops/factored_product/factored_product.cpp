#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "attention/ops.h"
#include "support/sparse_reference.h"

// A namespace of its own: the shapes and inputs of the other operators have the same names.
namespace topomask::factored_product_test {
namespace {

using namespace topomask::testing;
using at::Tensor;

struct Shape {
  int64_t rows, cols, rank, m, d;
  int64_t batch = 2, heads = 2, left_heads = 2, right_heads = 1;
};

const std::vector<Shape> kShapes = {{5, 5, 5, 3, 3},
                                    {1, 1, 1, 1, 1},
                                    {2, 2, 3, 16, 17},
                                    {63, 63, 63, 64, 64, 1, 1, 1, 1},
                                    {41, 63, 11, 17, 65, 2, 3, 1, 3},
                                    {13, 13, 29, 7, 16, 3, 2, 1, 1},
                                    {0, 0, 0, 4, 4},
                                    {4, 4, 0, 4, 4},
                                    {5, 5, 5, 0, 4},
                                    {5, 5, 7, 3, 144, 1, 2, 1, 2}};

struct Inputs {
  PatternPtr left, right;
  std::vector<Tensor> tensors;  // q, k, v, left values, right values
};

Inputs inputs(const Shape& s, at::ScalarType dtype) {
  Inputs in{random_pattern(s.rows, s.rank, 0.3, 5), random_pattern(s.cols, s.rank, 0.3, 6), {}};
  const at::ScalarType values = dtype == at::kDouble ? at::kDouble : at::kFloat;
  in.tensors = {random_tensor({s.batch, s.heads, s.rows, s.m}, 1).to(dtype),
                random_tensor({s.batch, s.heads, s.cols, s.m}, 2).to(dtype),
                random_tensor({s.batch, s.heads, s.cols, s.d}, 3).to(dtype),
                random_tensor({s.left_heads, in.left->entries()}, 4).to(values),
                random_tensor({s.right_heads, in.right->entries()}, 5).to(values)};
  return in;
}

std::vector<Tensor> own_leaves(const Inputs& in) {
  std::vector<Tensor> result;
  for (const Tensor& t : in.tensors) result.push_back(leaves({t}, t.scalar_type())[0]);
  return result;
}

std::vector<Tensor> product(const std::vector<Tensor>& x, const Inputs& in) {
  const auto [numerator, denominator] = factored_product(x[0], x[1], x[2], {in.left, x[3]}, {in.right, x[4]});
  return {numerator, denominator};
}

std::vector<Tensor> reference(const std::vector<Tensor>& x, const Inputs& in) {
  const Tensor mask = at::matmul(dense_matrix(in.left, x[3]), dense_matrix(in.right, x[4]).transpose(-1, -2));
  const Tensor weights = mask * at::matmul(x[0], x[1].transpose(-1, -2));
  return {at::matmul(weights, x[2]), weights.sum(-1)};
}

TEST(FactoredProduct, MatchesTheDenseFormulaAndItsGradients) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(c10::str(dtype, " rows ", s.rows, " cols ", s.cols, " rank ", s.rank, " m ", s.m, " d ", s.d));
      const Inputs in = inputs(s, dtype);
      const auto exact = leaves(in.tensors, at::kDouble);
      const auto mine = own_leaves(in);
      const auto actual = with_gradients(product(mine, in), mine);
      EXPECT_EQ(actual[0].scalar_type(), dtype == at::kDouble ? at::kDouble : at::kFloat);
      const double tolerance = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 2e-5 : 1e-2;
      expect_close(actual, with_gradients(reference(exact, in), exact), tolerance);
    }
  }
}

TEST(FactoredProduct, TakesAnyStrides) {
  const Inputs in = inputs({7, 7, 9, 16, 16, 2, 3, 3, 3}, at::kDouble);
  auto strided = in.tensors;
  for (int n = 0; n < 3; ++n) strided[n] = strided[n].transpose(1, 2).contiguous().transpose(1, 2);
  strided[4] = strided[4].t().contiguous().t();
  expect_close(product(strided, in), reference(strided, in), 1e-12);
}

TEST(FactoredProduct, DoesNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  const Inputs in = inputs({307, 307, 97, 5, 33, 2, 2, 1, 2}, at::kFloat);
  std::vector<std::vector<Tensor>> results;
  for (const int count : {1, 2, 7}) {
    at::set_num_threads(count);
    const auto x = own_leaves(in);
    results.push_back(with_gradients(product(x, in), x));
  }
  at::set_num_threads(threads);
  for (size_t n = 0; n < results[0].size(); ++n) {
    EXPECT_TRUE(at::equal(results[0][n], results[1][n]) && at::equal(results[0][n], results[2][n])) << "tensor " << n;
  }
}

TEST(FactoredProduct, RefusesSidesThatDoNotMeet) {
  const Inputs in = inputs({5, 5, 4, 3, 3}, at::kFloat), other = inputs({5, 5, 6, 3, 3}, at::kFloat);
  const auto& x = in.tensors;
  expect_error(
      [&] {
        factored_product(x[0], x[1], x[2], {in.left, x[3]}, {other.right, other.tensors[4]});
      },
      "factored_product: left and right must have as many columns, got 4 and 6");
}

}  // namespace
}  // namespace topomask::factored_product_test
