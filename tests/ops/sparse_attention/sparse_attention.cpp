#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "attention/ops.h"
#include "support/sparse_reference.h"

namespace topomask {
namespace {

using namespace topomask::testing;
using at::Tensor;

struct Shape {
  int64_t rows, cols, m, d;
  int64_t batch = 2, heads = 2, value_heads = 2;
};

/// Scores are kept for the backward where 2·entries ≤ rows·(m + d): everywhere but in the last.
const std::vector<Shape> kShapes = {{5, 5, 3, 3},
                                    {1, 1, 1, 1},
                                    {2, 2, 16, 17},
                                    {63, 63, 64, 64, 1, 1, 1},
                                    {97, 97, 17, 65, 2, 3, 1},
                                    {63, 41, 65, 16, 3, 2, 2},
                                    {0, 0, 4, 4},
                                    {4, 0, 4, 4},
                                    {5, 5, 80, 144, 1, 2, 1},
                                    {97, 97, 3, 5, 2, 3, 1}};

double tolerance(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 3e-5 : 3e-2;
}

at::ScalarType values_type(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

struct Inputs {
  PatternPtr pattern;
  std::vector<Tensor> tensors;  // q, k, v, values
};

/// Rounded to `dtype`, so that a reference in double sees the same numbers.
Inputs inputs(const Shape& s, at::ScalarType dtype, bool positive) {
  Inputs in{random_pattern(s.rows, s.cols, 0.3, 5), {}};
  in.tensors = {random_tensor({s.batch, s.heads, s.rows, s.m}, 1, positive).to(dtype),
                random_tensor({s.batch, s.heads, s.cols, s.m}, 2, positive).to(dtype),
                random_tensor({s.batch, s.heads, s.cols, s.d}, 3).to(dtype),
                random_tensor({s.value_heads, in.pattern->entries()}, 4, positive).to(values_type(dtype))};
  return in;
}

std::vector<Tensor> typed_leaves(const Inputs& in, at::ScalarType dtype) {
  std::vector<Tensor> result = leaves({in.tensors[0], in.tensors[1], in.tensors[2]}, dtype);
  result.push_back(leaves({in.tensors[3]}, values_type(dtype))[0]);
  return result;
}

using Operator = std::function<Tensor(const std::vector<Tensor>&, const PatternPtr&)>;

Tensor kernel_attention(const std::vector<Tensor>& x, const PatternPtr& pattern) {
  return std::get<0>(sparse_attention(x[0], x[1], x[2], {pattern, x[3]}, 1e-6));
}
Tensor kernel_reference(const std::vector<Tensor>& x, const PatternPtr& pattern) {
  return attention_reference(x[0], x[1], x[2], dense_matrix(pattern, x[3]), 1e-6);
}
Tensor softmax_attention(const std::vector<Tensor>& x, const PatternPtr& pattern) {
  return std::get<0>(sparse_softmax_attention(x[0], x[1], x[2], {pattern, x[3]}, 0.4, 1e-6));
}
Tensor softmax_dense(const std::vector<Tensor>& x, const PatternPtr& pattern) {
  return softmax_reference(x[0], x[1], x[2], dense_matrix(pattern, x[3]), 0.4, 1e-6);
}

void compare(const Operator& op, const Operator& reference, bool positive) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(c10::str(dtype, " rows ", s.rows, " cols ", s.cols, " m ", s.m, " d ", s.d, " Hv ", s.value_heads));
      const Inputs in = inputs(s, dtype, positive);
      const auto exact = leaves(in.tensors, at::kDouble);
      const auto expected = with_gradients({reference(exact, in.pattern)}, exact);
      const auto mine = typed_leaves(in, dtype);
      const auto actual = with_gradients({op(mine, in.pattern)}, mine);
      EXPECT_EQ(actual[0].scalar_type(), dtype);
      expect_close(actual, expected, tolerance(dtype));
    }
  }
}

TEST(SparseAttention, MatchesTheDenseFormulaAndItsGradients) {
  compare(kernel_attention, kernel_reference, true);
}

TEST(SparseSoftmaxAttention, MatchesTheDenseFormulaAndItsGradients) {
  compare(softmax_attention, softmax_dense, true);
}

TEST(SparseAttention, TakesAnyStrides) {
  const Inputs in = inputs({7, 7, 16, 16, 2, 3, 3}, at::kDouble, true);
  for (const auto& [op, reference] :
       {std::pair<Operator, Operator>{kernel_attention, kernel_reference}, {softmax_attention, softmax_dense}}) {
    auto strided = in.tensors;
    for (int n = 0; n < 3; ++n) strided[n] = strided[n].transpose(1, 2).contiguous().transpose(1, 2);
    strided[2] = strided[2].slice(0, 0, 1).expand_as(strided[2]);
    strided[3] = strided[3].t().contiguous().t();
    expect_close({op(strided, in.pattern)}, {reference(strided, in.pattern)}, 1e-12);
  }
}

TEST(SparseAttention, TreatsAClampedDenominatorAsConstant) {
  // Scores of either sign, and values scaled so that some denominators fall inside eps and others do not.
  Inputs in = inputs({63, 63, 4, 5, 2, 2, 2}, at::kDouble, false);
  const double eps = 0.5;
  const auto x = leaves(in.tensors, at::kDouble), y = leaves(in.tensors, at::kDouble);
  const auto [out, denominator] = sparse_attention(x[0], x[1], x[2], {in.pattern, x[3]}, eps);
  const int64_t clamped = (denominator.abs() < eps).sum().item<int64_t>();
  EXPECT_GT(clamped, 10);
  EXPECT_LT(clamped, denominator.numel() - 10);
  EXPECT_GT((denominator < -eps).sum().item<int64_t>(), 10);
  EXPECT_FALSE(denominator.requires_grad());
  const Tensor mask = dense_matrix(in.pattern, y[3]);
  expect_close(with_gradients({out}, x), with_gradients({attention_reference(y[0], y[1], y[2], mask, eps)}, y), 1e-12);
}

TEST(SparseSoftmaxAttention, TakesTheMaximumOverNonzeroEntriesOnly) {
  Inputs in = inputs({63, 63, 4, 5, 1, 2, 1}, at::kDouble, false);
  in.tensors[3] = at::where(in.tensors[3].abs() < 0.7, at::zeros_like(in.tensors[3]), in.tensors[3].abs());
  const int64_t last = in.pattern->offsets()[-2].item<int64_t>();
  in.tensors[3].slice(1, last).zero_();  // a row with entries, all of them zero
  const auto x = leaves(in.tensors, at::kDouble), y = leaves(in.tensors, at::kDouble);
  const auto [out, max, denominator] = sparse_softmax_attention(x[0], x[1], x[2], {in.pattern, x[3]}, 1.5, 1e-6);
  EXPECT_TRUE(out.select(2, 62).eq(0).all().item<bool>());
  EXPECT_TRUE(max.select(2, 62).eq(0).all().item<bool>());
  const Tensor mask = dense_matrix(in.pattern, y[3]);
  // A row of zeros has D = eps: gradients of order 1/eps, hence the tolerance relative to the largest.
  expect_close(with_gradients({out}, x), with_gradients({softmax_reference(y[0], y[1], y[2], mask, 1.5, 1e-6)}, y),
               1e-11);
}

TEST(SparseSoftmaxAttention, TakesScoresFarBeyondTheRangeOfExp) {
  Inputs in = inputs({63, 63, 16, 16, 1, 1, 1}, at::kFloat, false);
  const auto x = typed_leaves(in, at::kFloat);
  const auto [out, max, denominator] =
      sparse_softmax_attention(x[0] * 100, x[1] * 100, x[2], {in.pattern, x[3].abs()}, 1, 1e-6);
  const auto y = leaves(in.tensors, at::kDouble);
  const Tensor mask = dense_matrix(in.pattern, y[3].abs()), scores = at::matmul(y[0] * 100, (y[1] * 100).mT());
  const Tensor present = at::where(mask > 0, scores, -1e300);
  const Tensor weights = mask * (present - present.amax(-1, true).detach()).exp();
  const Tensor exact = at::matmul(weights, y[2]) / weights.sum(-1, true).clamp_min(1e-6);
  EXPECT_GT(max.max().item<double>(), 1e4);
  // A score of 1e5 is rounded by 6e-3, and the weights of two scores that are nearly equal change by as much.
  expect_close(with_gradients({out}, x), with_gradients({exact}, y), 2e-2);
}

TEST(SparseAttention, GivesZerosForAnEmptyRow) {
  const Inputs in = inputs({5, 5, 16, 16, 1, 1, 1}, at::kFloat, true);
  EXPECT_TRUE(kernel_attention(in.tensors, in.pattern).select(2, 0).eq(0).all().item<bool>());
  EXPECT_TRUE(softmax_attention(in.tensors, in.pattern).select(2, 0).eq(0).all().item<bool>());
}

TEST(SparseAttention, AgreesWithFiniteDifferences) {
  const Inputs in = inputs({5, 5, 3, 2, 1, 1, 1}, at::kDouble, true);
  for (const Operator& op : {Operator(kernel_attention), Operator(softmax_attention)}) {
    const auto x = leaves(in.tensors, at::kDouble);
    const auto grads = with_gradients({op(x, in.pattern)}, x);
    const Tensor cotangent = random_tensor(grads[0].sizes(), 99);
    for (size_t n = 0; n < x.size(); ++n) {
      const Tensor direction = random_tensor(x[n].sizes(), 50 + n);
      auto plus = in.tensors, minus = in.tensors;
      plus[n] = plus[n] + 1e-5 * direction;
      minus[n] = minus[n] - 1e-5 * direction;
      const Tensor slope = ((op(plus, in.pattern) - op(minus, in.pattern)) * cotangent).sum() / 2e-5;
      EXPECT_NEAR(slope.item<double>(), (grads[n + 1] * direction).sum().item<double>(), 1e-7) << "input " << n;
    }
  }
}

TEST(SparseAttention, DoesNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  // Scores computed again in the backward, and scores kept.
  for (const Shape& shape : {Shape{977, 977, 17, 33, 2, 3, 1}, Shape{211, 211, 64, 96, 2, 3, 1}}) {
    const Inputs in = inputs(shape, at::kFloat, true);
    for (const Operator& op : {Operator(kernel_attention), Operator(softmax_attention)}) {
      std::vector<std::vector<Tensor>> results;
      for (const int count : {1, 2, 7}) {
        at::set_num_threads(count);
        const auto x = typed_leaves(in, at::kFloat);
        results.push_back(with_gradients({op(x, in.pattern)}, x));
      }
      for (size_t n = 0; n < results[0].size(); ++n) {
        EXPECT_TRUE(at::equal(results[0][n], results[1][n]) && at::equal(results[0][n], results[2][n]))
            << "tensor " << n;
      }
    }
  }
  at::set_num_threads(threads);
}

TEST(SparseAttention, SkipsTheGradientOfConstantValues) {
  const Inputs in = inputs({5, 5, 3, 3}, at::kDouble, true);
  auto x = leaves(in.tensors, at::kDouble), y = leaves(in.tensors, at::kDouble);
  x[3] = x[3].detach();
  y[3] = y[3].detach();
  const std::vector<Tensor> some(x.begin(), x.begin() + 3), others(y.begin(), y.begin() + 3);
  expect_close(with_gradients({kernel_attention(x, in.pattern)}, some),
               with_gradients({kernel_reference(y, in.pattern)}, others), 1e-12);
}

TEST(SparseAttention, RefusesWhatItCannotCompute) {
  const Inputs in = inputs({5, 5, 3, 4, 2, 2, 2}, at::kFloat, true);
  const Tensor &q = in.tensors[0], &k = in.tensors[1], &v = in.tensors[2], &values = in.tensors[3];
  const auto call = [&](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& m, double eps = 1e-6) {
    return [=, &in] { sparse_attention(a, b, c, {in.pattern, m}, eps); };
  };
  expect_error(call(q.to(at::kHalf), k, v, values),
               "sparse_attention: q must be float64, float32 or bfloat16 on cpu, got Half[2, 2, 5, 3] on cpu");
  expect_error(call(q.slice(2, 0, 4), k, v, values), "sparse_attention: q must be [B, H, 5, C], got Float[2, 2, 4, 3]");
  expect_error(call(q, k.to(at::kDouble), v, values),
               "sparse_attention: k must have the dtype of q, Float, got Double");
  expect_error(call(q, k, v.slice(1, 0, 1), values), "sparse_attention: v must have the batch and heads of q");
  expect_error(call(q, k.slice(3, 0, 2), v, values), "sparse_attention: k must have the width of q, 3, got");
  expect_error(call(q, k, v, values.to(at::kDouble)),
               "sparse_attention: values must be Float on cpu for nodes in Float, got Double");
  expect_error(call(q, k, v, values.repeat({2, 1})), "sparse_attention: values must be [1 or H = 2, entries = ");
  expect_error(call(q, k, v, values, 0), "sparse_attention: eps must be positive, got 0");
  expect_error(
      [&] {
        sparse_softmax_attention(q, k, v, {in.pattern, values}, 1, -1);
      },
      "sparse_softmax_attention: eps must be positive, got -1");
}

}  // namespace
}  // namespace topomask
