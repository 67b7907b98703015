#include <ATen/core/dispatch/Dispatcher.h>

#include "cuda/on_cuda.h"
#include "support/compare.h"

namespace topomask {
namespace {

using Forests = testing::OnCuda;
using F = DistanceFunction;

at::Tensor path(int64_t nodes) {
  return at::arange(-1, nodes - 1, at::kLong);
}

at::Tensor star(int64_t nodes) {
  return at::zeros({nodes}, at::kLong).index_fill(0, at::zeros({1}, at::kLong), -1);
}

/// Every node hangs from any one before it.
at::Tensor random_tree(int64_t nodes) {
  const at::Tensor parent = (at::rand({nodes}, at::kDouble) * at::arange(nodes)).floor().to(at::kLong);
  return parent.index_fill(0, at::zeros({1}, at::kLong), -1);
}

/// Tall ones (transforms), wide ones (rows summed in parts, and parts of parts), and many small ones.
std::vector<at::Tensor> shapes() {
  at::manual_seed(3);
  const at::Tensor many = at::arange(-1, 5999, at::kLong);
  return {path(5001), star(70000), random_tree(5000), at::where(at::arange(6000) % 13 == 0, -1, many), path(1)};
}

/// M·x on the GPU against the CPU, with the gradient of x and of the mask's parameters.
void expect_same(const MaskPtr& here, at::Device gpu, double tolerance) {
  const MaskPtr there = here->to(gpu);
  ASSERT_EQ(there->device(), gpu);
  const auto dtype = *here->dtype();
  std::vector<int64_t> shape{2, here->size(), 33};
  if (here->heads() > 1) shape.insert(shape.begin() + 1, here->heads());
  const at::Tensor x = at::randn(shape, dtype).requires_grad_(), g = at::randn(shape, dtype);
  std::vector<at::Tensor> inputs{x};
  for (const at::Tensor& p : here->parameters()) {
    if (p.requires_grad()) inputs.push_back(p);
  }
  const at::Tensor y = here->matmul(x), moved = there->matmul(x.to(gpu));
  EXPECT_TRUE(testing::close(moved.cpu(), y, tolerance));
  const auto expected = torch::autograd::grad({y}, inputs, {g});
  const auto actual = torch::autograd::grad({moved}, inputs, {g.to(gpu)});
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(testing::close(actual[i], expected[i], tolerance)) << "gradient " << i;
  }
}

TEST_F(Forests, WithTablesAreTheCpus) {
  for (const at::Tensor& parent : shapes()) {
    const int64_t nodes = parent.size(0);
    SCOPED_TRACE(c10::str(nodes, " nodes"));
    for (const int64_t longest : {1, 20}) {
      const Forest forest(parent, at::randint(0, longest + 1, {nodes}).to(at::kDouble));
      const auto reach = static_cast<int64_t>(forest.diameter()) + 1;
      for (const auto& size : {std::vector<int64_t>{reach}, {2, reach}, {std::max<int64_t>(1, reach / 5)}}) {
        expect_same(tree_mask(forest, F::table(at::randn(size, at::kDouble).requires_grad_())), cuda_, 1e-9);
      }
    }
  }
}

TEST_F(Forests, WithTablesInFloat32AreNearTheCpus) {
  const Forest forest(path(9001));
  const at::Tensor f = at::exp(-0.01 * at::arange(9001, at::kFloat)).requires_grad_();
  expect_same(tree_mask(forest, F::table(f)), cuda_, 1e-4);
}

TEST_F(Forests, OfLowRankAreTheCpus) {
  for (const at::Tensor& parent : shapes()) {
    const int64_t nodes = parent.size(0);
    SCOPED_TRACE(c10::str(nodes, " nodes"));
    const Forest forest(parent, 0.001 + 0.01 * at::rand({nodes}, at::kDouble));
    // The ranks are below and above what is done at once.
    expect_same(tree_mask(forest, F::polynomial({1.0, -0.5, 0.02})), cuda_, 1e-9);
    expect_same(tree_mask(forest, F::smooth([](double d) { return 1 / (1 + d); }, 1e-12)), cuda_, 1e-9);
  }
}

TEST_F(Forests, OfGrowingFunctionsKeepTheirDigits) {
  const at::Tensor broom = at::cat({path(400), at::full({300}, 399, at::kLong)});
  const Forest forest(broom, at::full({700}, 0.5, at::kFloat));
  at::Tensor x = at::zeros({700, 1});
  x.slice(0, 400).fill_(1.0);
  const MaskPtr mask = tree_mask(forest, F::polynomial({0.0, 0.0, 1.0}))->to(cuda_);
  const at::Tensor y = mask->matmul(x.to(cuda_)).cpu().to(at::kDouble);
  for (const int64_t row : {0, 200, 399, 400, 699}) {
    const at::Tensor d = forest.distances(row);
    const double exact = at::dot(d * d, x.squeeze(1).to(at::kDouble)).item<double>();
    EXPECT_NEAR(y[row][0].item<double>(), exact, 1e-5 * exact) << "row " << row;
  }
}

/// Calls an operator by its name.
template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  torch::jit::Stack stack{c10::IValue(arguments)...};
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
}

TEST_F(Forests, OperatorsSayWhatIsWrong) {
  const at::Tensor rows = at::rand({1, 2, 5, 3}, cuda_), flat = at::rand({5, 3}, cuda_),
                   table = at::rand({2, 4}, cuda_);
  const at::Tensor index = at::zeros({6}, at::device(cuda_).dtype(at::kInt)), wide = index.to(at::kLong);
  const at::Tensor tiles = index.slice(0, 0, 4).view({1, 4}), sums = table.to(at::kDouble);
  const std::string text = " must be contiguous float32 or float64 [B, H, N, C], got ";
  EXPECT_ERROR(call("topomask::tree_row_sums", flat, wide, index), "tree_row_sums: x" + text);
  EXPECT_ERROR(call("topomask::tree_spread_", flat, rows, index, 1.0), "tree_spread_: y" + text);
  EXPECT_ERROR(call("topomask::tree_spread_", rows, flat, index, 1.0), "tree_spread_: products" + text);
  EXPECT_ERROR(call("topomask::hankel", table, flat, index, tiles), "hankel: sums" + text);
  EXPECT_ERROR(call("topomask::hankel", rows, rows, index, tiles),
               "hankel: the table must be contiguous [1 or H, 1 to 2^31], got ");
  EXPECT_ERROR(call("topomask::hankel", table, rows, index, index), "hankel: tiles must be int32 [tiles, 4], got ");
  EXPECT_ERROR(call("topomask::hankel_gradient_", sums, flat, rows, index, tiles, 1.0), "hankel_gradient_: g" + text);
  EXPECT_ERROR(call("topomask::hankel_gradient_", sums, rows, flat, index, tiles, 1.0), "hankel_gradient_: x" + text);
  const at::Tensor pieces = wide.slice(0, 0, 5).view({1, 5});
  const auto level = [&](const at::Tensor& y, const at::Tensor& p, const at::Tensor& send) {
    call("topomask::low_rank_level_", y, rows, index, p, wide, send, flat, int64_t{1});
  };
  EXPECT_ERROR(level(flat, pieces, flat),
               "low_rank_level_: y must be contiguous and like x Float[1, 2, 5, 3] on cuda:0");
  EXPECT_ERROR(level(rows, wide, flat), "low_rank_level_: pieces must be int64 [P, 5], got ");
  EXPECT_ERROR(level(rows, pieces, sums), "low_rank_level_: send and receive must be Float as x is, got Double");
}

TEST_F(Forests, ComeBack) {
  const Forest forest(random_tree(50));
  const MaskPtr table = tree_mask(forest, F::table(at::rand({60})));
  const MaskPtr low_rank = tree_mask(Forest(random_tree(50), at::rand({50})), F::polynomial({1, 2}));
  for (const MaskPtr& mask : {table, low_rank}) {
    const at::Tensor x = at::rand({50, 3});
    EXPECT_TRUE(testing::close(mask->to(cuda_)->to(at::kCPU)->matmul(x), mask->matmul(x), 1e-12));
    EXPECT_EQ(mask->to(cuda_)->to(at::kDouble)->dtype(), at::kDouble);
    EXPECT_EQ(mask->to(cuda_)->to(at::kDouble)->device(), cuda_);
  }
}

}  // namespace
}  // namespace topomask
